//! Requests of remote workers.

use std::str;

use jiff::Timestamp;
use serde::{Serialize, de::DeserializeOwned};
use windlass::{
    CommandId, Message,
    statemachine::{plain, wire::read_message},
    workers::protocol::{Exchange, Leave, ReadWaited, Register, ReportItems, What},
};

use crate::names_a_field;

/// Reads a body as each request. Returns whether one of them accepts it.
pub fn check(input: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(input) else {
        return false;
    };
    let report = read::<ReportItems>(text);
    for item in report.iter().flat_map(|report| &report.items) {
        match item.what() {
            Ok(What::Return(message)) => {
                let new_id = || CommandId::new("new");
                let read = read_message(message.as_str(), Timestamp::UNIX_EPOCH, new_id);
                let _: Option<Message> = read.map_err(|refused| names_a_field(&refused)).ok();
            }
            Ok(what) => assert!(!what.is_numbered() || item.n > 0),
            Err(refused) => assert_eq!(refused.field(), "items", "{refused}"),
        }
    }
    let others = [
        read::<Register>(text).is_some(),
        read::<Exchange>(text).is_some(),
        read::<ReadWaited>(text).is_some(),
        read::<Leave>(text).is_some(),
    ];
    report.is_some() || others.contains(&true)
}

/// Reads a request. What is read is written, and reads as the same request.
fn read<T: Serialize + DeserializeOwned>(text: &str) -> Option<T> {
    match plain::object::<T>(text) {
        Ok(request) => {
            let written = serde_json::to_string(&request).unwrap();
            let again = plain::object::<T>(&written);
            let again = again.unwrap_or_else(|wrong| panic!("{written}: {wrong}"));
            assert_eq!(serde_json::to_string(&again).unwrap(), written);
            Some(request)
        }
        Err(wrong) => {
            assert!(!wrong.to_string().is_empty());
            names_a_field(&wrong.into_invalid("body"));
            None
        }
    }
}
