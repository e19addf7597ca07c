//! The identity of a namespace: made once, by the first who asks, and kept under a key of its own.

use etcd_client::{Compare, CompareOp, Txn, TxnOp};
use uuid::Uuid;

use super::query::Queries;
use crate::store::{
    Error,
    etcd::{
        client::{Fault, kv},
        schema::KeyValue,
    },
};

/// Returns the text of the key. Others may have written to it.
fn read(key: &str, stored: &KeyValue) -> Result<String, Error> {
    let text = String::from_utf8_lossy(stored.value()).into_owned();
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    if (16..=64).contains(&text.len()) && text.bytes().all(plain) {
        return Ok(text);
    }
    Err(Error::Corrupt {
        what: key.to_owned(),
        reason: "it is not 16 to 64 lower-case letters and digits; delete the key, and a new \
                 identity is made"
            .into(),
    })
}

impl Queries {
    /// Reads the identity of the namespace, and makes one if it has none.
    pub(crate) async fn identity(&self) -> Result<String, Error> {
        let key = self.reader.keys.identity();
        let failed = |fault: Fault| fault.into_error("read the identity of the namespace");
        if let Some(stored) = self.reader.link.get_key(&key).await.map_err(failed)? {
            return read(&key, &stored);
        }
        let new = Uuid::now_v7().simple().to_string();
        // Several may ask first at the same time. All read what one of them wrote, also when the
        // answer to the write is lost: then it is asked again.
        let none = Compare::create_revision(&*key, CompareOp::Equal, 0);
        let txn = Txn::new()
            .when([none])
            .and_then([TxnOp::put(&*key, &*new, None)])
            .or_else([TxnOp::get(&*key, None)]);
        let done = self.reader.link.txn(txn).await.map_err(failed)?;
        if done.succeeded() {
            return Ok(new);
        }
        match kv(done.op_responses().into_iter().next()) {
            Some(stored) => read(&key, &stored),
            None => Err(Error::unavailable(
                "read the identity of the namespace",
                "the key was deleted meanwhile",
            )),
        }
    }
}
