/*
 * full_disk.c
 *		A full disk for a server, without a file system of its own.
 *
 * Preloaded into a server.  While the file that FULL_DISK names exists,
 * whatever would make a file of tables and indexes larger fails with ENOSPC.
 * WAL is on its own volume.
 *
 * Copyright (c) 2026, the taskq developers
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static bool
no_room(int fd, off64_t end)
{
	const char   *control = getenv("FULL_DISK");
	char          link[40];
	char          path[PATH_MAX];
	ssize_t       n;
	struct stat64 st;

	if (control == NULL || access(control, F_OK) != 0)
		return false;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	if (n < 0)
		return false;
	path[n] = 0;
	return strstr(path, "/base/") != NULL && fstat64(fd, &st) == 0 &&
		   end > st.st_size;
}

static off64_t
length(const struct iovec *iov, int count)
{
	off64_t sum = 0;

	for (int i = 0; i < count; i++)
		sum += (off64_t) iov[i].iov_len;
	return sum;
}

#define ORIGINAL(name) ((__typeof__(&name)) dlsym(RTLD_NEXT, #name))

/* With errno kept by those that find room. */
#define FULL(fd, end)                                                         \
	do                                                                        \
	{                                                                         \
		int saved = errno;                                                    \
		if (no_room(fd, end))                                                 \
		{                                                                     \
			errno = ENOSPC;                                                   \
			return -1;                                                        \
		}                                                                     \
		errno = saved;                                                        \
	} while (0)

ssize_t
pwrite64(int fd, const void *buffer, size_t size, off64_t offset)
{
	FULL(fd, offset + (off64_t) size);
	return ORIGINAL(pwrite64)(fd, buffer, size, offset);
}

ssize_t
pwrite(int fd, const void *buffer, size_t size, off_t offset)
{
	FULL(fd, offset + (off64_t) size);
	return ORIGINAL(pwrite)(fd, buffer, size, offset);
}

ssize_t
pwritev64(int fd, const struct iovec *iov, int count, off64_t offset)
{
	FULL(fd, offset + length(iov, count));
	return ORIGINAL(pwritev64)(fd, iov, count, offset);
}

ssize_t
pwritev(int fd, const struct iovec *iov, int count, off_t offset)
{
	FULL(fd, offset + length(iov, count));
	return ORIGINAL(pwritev)(fd, iov, count, offset);
}

int
posix_fallocate64(int fd, off64_t offset, off64_t size)
{
	if (no_room(fd, offset + size))
		return ENOSPC;
	return ORIGINAL(posix_fallocate64)(fd, offset, size);
}

int
posix_fallocate(int fd, off_t offset, off_t size)
{
	if (no_room(fd, offset + size))
		return ENOSPC;
	return ORIGINAL(posix_fallocate)(fd, offset, size);
}
