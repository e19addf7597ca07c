//! A number that a [`Value`] cannot hold, in bodies that are sent and received.

use serde_json::{Value, json};

/// What stands for the number in a [`Value`], which cannot hold it.
pub(super) const MARK: &str = "the integer of 5,000 digits";

/// Returns a body as it is sent, with the number in place of its mark.
pub(super) fn written(body: &Value) -> String {
    let text = body.to_string();
    match text.contains(MARK) {
        true => text.replace(&json!(MARK).to_string(), &number()),
        false => text,
    }
}

/// Returns a body as it was sent, with the mark in place of the number.
pub(super) fn marked(body: &[u8]) -> Vec<u8> {
    match std::str::from_utf8(body) {
        Ok(text) => text
            .replace(&number(), &json!(MARK).to_string())
            .into_bytes(),
        Err(_) => body.to_owned(),
    }
}

fn number() -> String {
    "7".repeat(5_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_sent_and_read_in_place_of_its_mark() {
        let body = json!({"claims": [{"props": [MARK, "other"]}]});
        let text = written(&body);
        assert!(
            text.contains(&format!("[{},\"other\"]", number())),
            "{text}"
        );
        let read: Value = serde_json::from_slice(&marked(text.as_bytes())).unwrap();
        assert_eq!(read, body);
    }
}
