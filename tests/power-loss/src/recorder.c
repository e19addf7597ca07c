/*
 * Records every change of the files in one folder, in order and with the data.
 *
 * Loaded with LD_PRELOAD. POWER_LOSS_FOLDER names the folder, POWER_LOSS_TRACE the trace, a file
 * outside of that folder. Each record is a header and `size` bytes; src/trace.rs reads them.
 *
 * A lock covers each call and its record, so the trace has the order of the calls. A sync is recorded
 * and not passed on: the order of the trace is what counts, and the test does not depend on the disk.
 * A call that changes a file in a way that the trace cannot describe becomes a record 'X', which
 * fails the test. "-shm" files are left out: SQLite maps them, and rebuilds them after a crash.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define FILES 65536

struct header {
    uint32_t op;
    int32_t fd;
    uint64_t at;
    uint64_t size;
};

enum { NOT_RECORDED, RECORDED, APPENDING };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char files[FILES];
static const char *folder;
static size_t folder_length;
static int trace = -1;

/* The next definition of this function: libc's. */
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static void fail(const char *what)
{
    fprintf(stderr, "power loss recorder: %s: %s\n", what, strerror(errno));
    abort();
}

__attribute__((constructor)) static void start(void)
{
    const char *path = getenv("POWER_LOSS_TRACE");
    const char *watched = getenv("POWER_LOSS_FOLDER");
    if (!path || !watched)
        return;
    /* O_EXCL: a second process would mix its records into the trace. */
    trace = REAL(open)(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (trace < 0)
        fail("cannot create the trace");
    folder_length = strlen(watched);
    folder = watched;
}

static void put(const void *data, size_t size)
{
    const char *next = data;
    while (size > 0) {
        ssize_t done = REAL(write)(trace, next, size);
        if (done < 0 && errno != EINTR)
            fail("cannot write the trace");
        if (done > 0) {
            next += done;
            size -= (size_t)done;
        }
    }
}

static void record(char op, int fd, uint64_t at, const void *data, size_t size)
{
    struct header header = {(uint32_t)op, fd, at, size};
    int before = errno;
    put(&header, sizeof header);
    put(data, size);
    errno = before;
}

static void unknown(const char *call)
{
    record('X', -1, 0, call, strlen(call));
}

/* The name within the folder, "." for the folder itself, NULL for what is not recorded. */
static const char *name_of(const char *path)
{
    if (!folder || !path || strncmp(path, folder, folder_length) != 0)
        return NULL;
    const char *rest = path + folder_length;
    if (*rest == 0)
        return ".";
    size_t length = strlen(rest);
    if (*rest != '/' || (length > 4 && strcmp(rest + length - 4, "-shm") == 0))
        return NULL;
    return rest + 1;
}

/* The replay must lead to the same size at each sync, or a change was missed. */
static uint64_t size_of(int fd)
{
    struct stat found;
    if (fstat(fd, &found) != 0)
        fail("cannot read the size of a file");
    return (uint64_t)found.st_size;
}

static int recorded(int fd)
{
    return fd >= 0 && fd < FILES ? files[fd] : NOT_RECORDED;
}

static void opened(int fd, const char *path, int flags)
{
    const char *name = name_of(path);
    if (fd < 0)
        return;
    if (fd >= FILES)
        fail("too many open files");
    files[fd] = !name ? NOT_RECORDED : (flags & O_APPEND) ? APPENDING : RECORDED;
    if (name)
        record('O', fd, (flags & O_TRUNC) ? 1 : 0, name, strlen(name));
}

#define OPEN(name)                                                    \
    int name(const char *path, int flags, ...)                        \
    {                                                                 \
        va_list rest;                                                 \
        va_start(rest, flags);                                        \
        mode_t mode = (flags & O_CREAT) ? va_arg(rest, mode_t) : 0;   \
        va_end(rest);                                                 \
        pthread_mutex_lock(&lock);                                    \
        int fd = REAL(name)(path, flags, mode);                       \
        opened(fd, path, flags);                                      \
        pthread_mutex_unlock(&lock);                                  \
        return fd;                                                    \
    }

#define OPENAT(name)                                                  \
    int name(int at, const char *path, int flags, ...)                \
    {                                                                 \
        va_list rest;                                                 \
        va_start(rest, flags);                                        \
        mode_t mode = (flags & O_CREAT) ? va_arg(rest, mode_t) : 0;   \
        va_end(rest);                                                 \
        pthread_mutex_lock(&lock);                                    \
        int fd = REAL(name)(at, path, flags, mode);                   \
        opened(fd, path, flags);                                      \
        pthread_mutex_unlock(&lock);                                  \
        return fd;                                                    \
    }

#define PWRITE(name, offset)                                          \
    ssize_t name(int fd, const void *data, size_t size, offset at)    \
    {                                                                 \
        pthread_mutex_lock(&lock);                                    \
        ssize_t done = REAL(name)(fd, data, size, at);                \
        if (done > 0 && recorded(fd))                                 \
            record('W', fd, (uint64_t)at, data, (size_t)done);        \
        pthread_mutex_unlock(&lock);                                  \
        return done;                                                  \
    }

#define FTRUNCATE(name, offset)                                       \
    int name(int fd, offset size)                                     \
    {                                                                 \
        pthread_mutex_lock(&lock);                                    \
        int failed = REAL(name)(fd, size);                            \
        if (!failed && recorded(fd))                                  \
            record('T', fd, (uint64_t)size, NULL, 0);                 \
        pthread_mutex_unlock(&lock);                                  \
        return failed;                                                \
    }

#define SYNC(name)                                                    \
    int name(int fd)                                                  \
    {                                                                 \
        pthread_mutex_lock(&lock);                                    \
        int is_recorded = recorded(fd);                               \
        if (is_recorded)                                              \
            record('S', fd, size_of(fd), NULL, 0);                    \
        pthread_mutex_unlock(&lock);                                  \
        return is_recorded ? 0 : REAL(name)(fd);                      \
    }

OPEN(open)
OPENAT(openat)
PWRITE(pwrite, off_t)
FTRUNCATE(ftruncate, off_t)
SYNC(fsync)
SYNC(fdatasync)
#ifdef __GLIBC__
OPEN(open64)
OPENAT(openat64)
PWRITE(pwrite64, off64_t)
FTRUNCATE(ftruncate64, off64_t)
#endif

ssize_t write(int fd, const void *data, size_t size)
{
    if (!recorded(fd))
        return REAL(write)(fd, data, size);
    pthread_mutex_lock(&lock);
    off_t at = lseek(fd, 0, recorded(fd) == APPENDING ? SEEK_END : SEEK_CUR);
    ssize_t done = REAL(write)(fd, data, size);
    if (done > 0)
        record('W', fd, (uint64_t)at, data, (size_t)done);
    pthread_mutex_unlock(&lock);
    return done;
}

int close(int fd)
{
    pthread_mutex_lock(&lock);
    if (recorded(fd)) {
        files[fd] = NOT_RECORDED;
        record('C', fd, 0, NULL, 0);
    }
    int failed = REAL(close)(fd);
    pthread_mutex_unlock(&lock);
    return failed;
}

int unlink(const char *path)
{
    pthread_mutex_lock(&lock);
    int failed = REAL(unlink)(path);
    const char *name = name_of(path);
    if (!failed && name)
        record('U', -1, 0, name, strlen(name));
    pthread_mutex_unlock(&lock);
    return failed;
}

/* What the trace cannot describe. */

#define UNKNOWN(condition, call)                                      \
    pthread_mutex_lock(&lock);                                        \
    if (condition)                                                    \
        unknown(#call);                                               \
    pthread_mutex_unlock(&lock);                                      \
    return REAL(call)

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    UNKNOWN(recorded(fd), writev)(fd, parts, count);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at)
{
    UNKNOWN(recorded(fd), pwritev)(fd, parts, count, at);
}

int fallocate(int fd, int mode, off_t at, off_t size)
{
    UNKNOWN(recorded(fd), fallocate)(fd, mode, at, size);
}

int posix_fallocate(int fd, off_t at, off_t size)
{
    UNKNOWN(recorded(fd), posix_fallocate)(fd, at, size);
}

int truncate(const char *path, off_t size)
{
    UNKNOWN(name_of(path), truncate)(path, size);
}

int rename(const char *from, const char *to)
{
    UNKNOWN(name_of(from) || name_of(to), rename)(from, to);
}

int link(const char *from, const char *to)
{
    UNKNOWN(name_of(from) || name_of(to), link)(from, to);
}

int dup(int fd)
{
    UNKNOWN(recorded(fd), dup)(fd);
}

void *mmap(void *start, size_t size, int access, int flags, int fd, off_t at)
{
    int writes = (flags & MAP_SHARED) && (access & PROT_WRITE);
    UNKNOWN(writes && recorded(fd), mmap)(start, size, access, flags, fd, at);
}
