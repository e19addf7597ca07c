//! Names made of content: the same content has the same name, wherever and whenever.

use sha2::{Digest, Sha256};

/// Returns the first digits (64 at the most) of the hash of these parts. Where one part ends and
/// the next begins makes a difference.
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
