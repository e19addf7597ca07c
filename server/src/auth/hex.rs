//! Hashes as text.

use std::fmt::Write as _;

use serde::{Deserialize, Deserializer, Serializer, de::Error};

/// The SHA-256 of a secret.
pub(crate) type Hash = [u8; 32];

/// Returns bytes as hexadecimal digits.
pub(crate) fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a text does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

pub(super) fn serialize<S: Serializer>(hash: &Hash, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&text(hash))
}

/// Reads the digits of a hash.
pub(super) fn read(text: &str) -> Option<Hash> {
    let mut hash = Hash::default();
    let digits = (text.len() == 64 && text.is_ascii()).then_some(text)?;
    for (n, byte) in hash.iter_mut().enumerate() {
        let two = digits.get(n * 2..n * 2 + 2)?;
        *byte = u8::from_str_radix(two, 16).ok()?;
    }
    Some(hash)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Hash, D::Error> {
    let text = String::deserialize(from)?;
    read(&text).ok_or_else(|| D::Error::custom("a hash does not have 64 hexadecimal digits"))
}
