//! The secret of a worker, of which stores keep the hash.

use std::fmt::Write;

use sha2::{Digest, Sha256};

/// Returns the hash of a secret, as stores keep it.
pub(super) fn hash(secret: &str) -> String {
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(secret.as_bytes()) {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Returns whether two hashes are the same, in a time that does not depend on where they differ.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    let differ = one.bytes().zip(other.bytes());
    let differ = differ.fold(0, |differ, (a, b)| differ | (a ^ b));
    one.len() == other.len() && differ == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_sha_256() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash("abc"), abc);
        assert!(is_same(&hash("abc"), abc) && !is_same(&hash("abd"), abc) && !is_same("", abc));
    }
}
