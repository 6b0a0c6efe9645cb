// Reads a file, then ends as the second argument states: k (SIGKILL), a (abort), e (_exit).
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

int main(int count, char **arguments) {
    char data[512];
    int file = open(arguments[1], O_RDONLY);
    for (int turn = 0; turn < 10000; turn++)
        if (pread(file, data, sizeof data, turn % 500 * 512) != sizeof data)
            return 1;
    switch (*arguments[2]) {
    case 'k': raise(SIGKILL);
    case 'a': abort();
    default: _exit(7);
    }
}
