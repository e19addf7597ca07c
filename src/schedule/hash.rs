//! A hash that is the same on every node and in every version.

use std::hash::Hasher;

use fnv::FnvHasher;

/// Returns a hash of the bytes (FNV-1a with a final mix).
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = FnvHasher::default();
    hasher.write(bytes);
    let mut hash = hasher.finish();
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_never_changes() {
        // A changed hash would move the due times of every schedule with jitter.
        assert_eq!(hash(b""), 0xecba_3df2_c338_3c52);
        assert_ne!(hash(b"a@1"), hash(b"a@2"));
    }
}
