//! Base64, in which the gateway of etcd writes keys and values.

use crate::BoxError;

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Writes bytes as padded Base64.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let digit = (bits >> (18 - 6 * at)) as usize & 63;
            text.push(if at <= chunk.len() {
                char::from(DIGITS[digit])
            } else {
                '='
            });
        }
    }
    text
}

/// Reads padded Base64.
///
/// # Errors
///
/// When a character is not one of its digits.
pub(crate) fn decode(text: &str) -> Result<Vec<u8>, BoxError> {
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for character in text.trim_end_matches('=').bytes() {
        let digit = DIGITS.iter().position(|d| *d == character);
        let digit = digit.ok_or_else(|| format!("no Base64: {text}"))?;
        bits = bits << 6 | digit as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_standard_are_written_and_read() {
        let samples = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("\u{ff}\u{fb}", "w7/Duw=="),
        ];
        for (plain, coded) in samples {
            assert_eq!(encode(plain.as_bytes()), coded);
            assert_eq!(decode(coded).unwrap(), plain.as_bytes());
        }
        assert!(decode("Z*==").is_err());
    }
}
