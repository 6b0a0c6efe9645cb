// Calls the functions of stdio on a few files.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **arguments) {
    char data[20000], *line = 0;
    size_t capacity = 0;
    FILE *file = fopen("made", "w+");
    for (int turn = 0; turn < 1000; turn++) {
        fprintf(file, "%d %s %.2f %d %d %d %d\n", turn, "word", turn / 3.0, 4, 5, 6, 7);
        fputs("line\n", file);
        fputc('x', file);
        putc('\n', file);
    }
    memset(data, 'y', sizeof data);
    fwrite(data, 1, sizeof data, file);
    fseek(file, 100, SEEK_SET);
    fputs("over", file);
    fflush(file);
    rewind(file);
    long sum = 0;
    for (int turn = 0; turn < 50; turn++)
        sum += getline(&line, &capacity, file);
    fseek(file, 10000, SEEK_SET);
    sum += fread(data, 1, 5000, file);
    sum += fgetc(file);
    fseek(file, -10, SEEK_END);
    sum += fread(data, 1, 100, file);
    file = freopen("other", "a", file);
    fwrite(data, 1, 3, file);
    fclose(file);
    file = fopen("made", "r");
    int number = -1;
    if (fscanf(file, "%d", &number) != 1 || number != 0)
        return 1;
    // The program ends without fclose, so that its end writes the buffer.
    file = fopen("left", "w");
    fprintf(file, "%s", "left");
    printf("%ld %f %d\n", sum, 1.5, number);
    return 0;
}
