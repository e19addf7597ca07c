//! The identity of a namespace, which the first call creates and stores in a key.

use etcd_client::{Compare, CompareOp, Txn, TxnOp};

use super::query::Queries;
use crate::store::{
    Error,
    etcd::{client::kv, schema::KeyValue},
};

const OPERATION: &str = "read the identity of the namespace";

/// Returns the value of the key after a check, because other programs may have written to it.
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
    /// Reads the identity of the namespace. Creates one if it has none.
    pub(crate) async fn identity(&self) -> Result<String, Error> {
        let key = self.reader.keys.identity();

        if let Some(stored) = self.reader.key(&key, OPERATION).await? {
            return read(&key, &stored);
        }
        let new = crate::unique_id::new().simple().to_string();
        // Several concurrent first calls return what one of them wrote. After a lost answer, the
        // next call reads it.
        let none = Compare::create_revision(&*key, CompareOp::Equal, 0);
        let txn = Txn::new()
            .when([none])
            .and_then([TxnOp::put(&*key, &*new, None)])
            .or_else([TxnOp::get(&*key, None)]);
        let done = self.reader.link.write(txn).await;
        let done = done.map_err(|fault| fault.into_error(OPERATION))?;
        if done.succeeded() {
            return Ok(new);
        }
        match kv(done.op_responses().into_iter().next()) {
            Some(stored) => read(&key, &stored),
            None => Err(Error::unavailable(
                OPERATION,
                "the key was deleted in the meantime",
            )),
        }
    }
}
