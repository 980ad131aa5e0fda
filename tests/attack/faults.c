/* Preloaded into a process: lets writes below $FAULTS_FOLDER fail, and tells of each fsync there. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long count, first, last;
static void (*_Atomic synced)(int);

/* Count writes from now on; those from number `from` to number `to` fail: the disk is full. */
void faults_arm(long from, long to) { count = 0; first = from; last = to; }
long faults_count(void) { return count; }
void faults_on_sync(void (*hear)(int)) { synced = hear; }

static int below(const char *path) {
  const char *folder = getenv("FAULTS_FOLDER");
  return folder && strncmp(path, folder, strlen(folder)) == 0;
}

static int ours(int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  if (n < 0) return 0;
  path[n] = 0;
  return below(path);
}

static int full(void) {
  long n = ++count;
  if (n < first || n > last) return 0;
  errno = ENOSPC;
  return 1;
}

#define REAL(name) static __typeof__(name) *real; if (!real) real = dlsym(RTLD_NEXT, #name)
#define WRITES(type, name, parameters, arguments) \
  type name parameters { REAL(name); return ours(fd) && full() ? -1 : real arguments; }

WRITES(ssize_t, write, (int fd, const void *data, size_t n), (fd, data, n))
WRITES(ssize_t, pwrite, (int fd, const void *data, size_t n, off_t at), (fd, data, n, at))
WRITES(ssize_t, pwrite64, (int fd, const void *data, size_t n, off64_t at), (fd, data, n, at))
WRITES(ssize_t, writev, (int fd, const struct iovec *parts, int n), (fd, parts, n))
WRITES(ssize_t, pwritev, (int fd, const struct iovec *parts, int n, off_t at), (fd, parts, n, at))

int mkdir(const char *path, mode_t mode) {
  REAL(mkdir);
  return below(path) && full() ? -1 : real(path, mode);
}

static int told(int fd) {
  void (*hear)(int) = synced;
  if (hear) hear(fd);
  return 0;
}

/* What is below the folder is thrown away: to have it on a real disk as well only takes time. */
#define SYNCS(name) \
  int name(int fd) { REAL(name); return ours(fd) ? told(fd) : real(fd); }

SYNCS(fsync)
SYNCS(fdatasync)
