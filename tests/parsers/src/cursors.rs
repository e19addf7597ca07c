//! Positions in lists and logs, and the words of the parameters of lists.

use std::{
    fmt::{Debug, Display},
    str::{self, FromStr},
};

use windlass::{
    Invalid, StateKind, TransactionId,
    store::{Cursor, LogCursor, Order, StateWord, WaitKind},
};

use crate::names_a_field;

/// Reads a text as each position and word. Returns whether one reader accepts it.
pub fn check(input: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(input) else {
        return false;
    };
    let accepted = [
        survives::<Cursor>(text),
        survives::<LogCursor>(text),
        survives::<Order>(text),
        survives::<StateWord>(text),
        survives::<WaitKind>(text),
        survives::<StateKind>(text),
        survives::<TransactionId>(text),
    ];
    if let Ok(cursor) = text.parse::<Cursor>() {
        let json = serde_json::to_string(&cursor).unwrap();
        assert_eq!(serde_json::from_str::<Cursor>(&json).unwrap(), cursor);
    }
    accepted.contains(&true)
}

/// Checks that a value that is read from the text is written as a text of the same value.
fn survives<T: FromStr<Err = Invalid> + Display + PartialEq + Debug>(text: &str) -> bool {
    match text.parse::<T>() {
        Ok(value) => {
            let written = value.to_string();
            assert_eq!(written.parse::<T>(), Ok(value), "{text}: {written}");
            true
        }
        Err(refused) => {
            names_a_field(&refused);
            false
        }
    }
}
