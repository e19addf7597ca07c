/* Each thread that starts gets the same "random" bytes in the same order, so that the hash maps of a run have the same order
 * again. The standard library asks for this symbol weakly, to allow it. Linked into the programs of the simulation alone.
 */
#include <stddef.h>
#include <sys/types.h>

static __thread unsigned long long state;

ssize_t getrandom(void *buffer, size_t length, unsigned int flags)
{
    unsigned char *bytes = buffer;
    (void)flags;
    for (size_t at = 0; at < length; at++) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        bytes[at] = (unsigned char)(state >> 33);
    }
    return (ssize_t)length;
}
