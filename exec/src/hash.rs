//! Names derived from content: the same content always has the same name, on every machine.

use sha2::{Digest, Sha256};

/// Returns the first digits (at most 64) of the hash of these parts. The boundaries between the
/// parts are part of the hash.
pub fn hex(parts: &[&[u8]], digits: usize) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    let mut text: String = hasher
        .finalize()
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    text.truncate(digits);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_run_together() {
        assert_eq!(hex(&[b"a"], 8).len(), 8);
        assert_ne!(hex(&[b"ab", b"c"], 64), hex(&[b"a", b"bc"], 64));
        assert_eq!(hex(&[b"ab"], 64), hex(&[b"ab"], 64));
    }
}
