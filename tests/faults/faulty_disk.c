/* A disk that fails on demand, for LD_PRELOAD: every call that changes something below FAULTY_ROOT is numbered, and
 * those with numbers from `from` up to `upto` fail with `error`. The numbers are shared by all processes that map the
 * file FAULTY_CONTROL, so that a test sees and steers the service and its worker together. With `torn`, a failing write
 * leaves half of its bytes behind, as a full disk does.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

struct control {
    _Atomic int64_t count, from, upto, error, torn, failed;
};

static struct control *control;
static const char *root;

#define REAL(name, ...) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))(__VA_ARGS__)

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAULTY_CONTROL");
    root = getenv("FAULTY_ROOT");
    if (!path || !root)
        return;
    int file = REAL(open, path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return;
    void *map = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (map != MAP_FAILED)
        control = map;
}

static int below(const char *path) {
    char buffer[PATH_MAX];
    if (!control || !path)
        return 0;
    if (path[0] != '/') {
        if (!getcwd(buffer, sizeof buffer / 2))
            return 0;
        strcat(buffer, "/");
        strncat(buffer, path, sizeof buffer / 2 - 2);
        path = buffer;
    }
    return strncmp(path, root, strlen(root)) == 0;
}

static int below_fd(int file) {
    char link[64], path[PATH_MAX];
    if (!control)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0)
        return 0;
    path[size] = 0;
    return below(path);
}

/* Whether this call, which changes something below the root, is to fail; errno is set then. */
static int fails(void) {
    int64_t number = atomic_fetch_add(&control->count, 1);
    if (number < control->from || number >= control->upto)
        return 0;
    atomic_fetch_add(&control->failed, 1);
    errno = (int)control->error;
    return 1;
}

ssize_t write(int file, const void *data, size_t size) {
    if (below_fd(file) && fails()) {
        int why = errno;
        if (control->torn && size > 1)
            REAL(write, file, data, size / 2);
        errno = why;
        return -1;
    }
    return REAL(write, file, data, size);
}

#define POSITIONAL(name, offset_type)                                            \
    ssize_t name(int file, const void *data, size_t size, offset_type offset) {  \
        if (below_fd(file) && fails()) {                                         \
            int why = errno;                                                     \
            if (control->torn && size > 1)                                       \
                REAL(name, file, data, size / 2, offset);                        \
            errno = why;                                                         \
            return -1;                                                           \
        }                                                                        \
        return REAL(name, file, data, size, offset);                             \
    }
POSITIONAL(pwrite, off_t)
POSITIONAL(pwrite64, off64_t)

int fsync(int file) { return below_fd(file) && fails() ? -1 : REAL(fsync, file); }
int fdatasync(int file) { return below_fd(file) && fails() ? -1 : REAL(fdatasync, file); }
int ftruncate(int file, off_t size) { return below_fd(file) && fails() ? -1 : REAL(ftruncate, file, size); }
int ftruncate64(int file, off64_t size) { return below_fd(file) && fails() ? -1 : REAL(ftruncate64, file, size); }
int rename(const char *old, const char *new) { return below(new) && fails() ? -1 : REAL(rename, old, new); }
int unlink(const char *path) { return below(path) && fails() ? -1 : REAL(unlink, path); }
int mkdir(const char *path, mode_t mode) { return below(path) && fails() ? -1 : REAL(mkdir, path, mode); }

#define OPEN(name)                                                          \
    int name(const char *path, int flags, ...) {                            \
        va_list rest;                                                       \
        va_start(rest, flags);                                              \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest);                                                       \
        if (flags & O_CREAT && below(path) && fails())                      \
            return -1;                                                      \
        return REAL(name, path, flags, mode);                               \
    }
OPEN(open)
OPEN(open64)
