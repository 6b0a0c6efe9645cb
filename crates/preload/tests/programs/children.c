// Makes children with vfork and with clone (not through libc), and executes a missing program.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int many;

int main(int count, char **arguments) {
    char *echo[] = {"sh", "-c", "exit 3", 0};
    char data[10];
    int status = 0, file = open(arguments[1], O_RDONLY);

    pid_t child = vfork();
    if (child == 0) {
        dup2(file, 9);
        for (int turn = 0; turn < many; turn++)
            close(-1);
        execv("/bin/sh", echo);
        _exit(1);
    }
    waitpid(child, &status, 0);
    printf("vfork %d %d\n", child, WEXITSTATUS(status));

    errno = 0;
    child = vfork();
    if (child == 0) {
        execl("/nonexistent", "a", "b", (char *)0);
        _exit(errno);
    }
    waitpid(child, &status, 0);
    printf("failed %d %d\n", child, WEXITSTATUS(status));

    child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        read(file, data, 7);
        _exit(4);
    }
    waitpid(child, &status, 0);
    printf("clone %d %d\n", child, WEXITSTATUS(status));
    return 0;
}
