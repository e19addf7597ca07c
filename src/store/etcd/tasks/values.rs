//! The named values.

use etcd_client::{Compare, CompareOp, Txn, TxnOp};

use crate::store::{
    AuditAction, AuditEntry, Error, NamedValue, SetValue,
    etcd::{
        read::Access,
        schema::{KeyValue, json::write},
    },
};

/// How often a value that others change at the same time is tried again.
const TRIES: u32 = 20;

/// Returns the values whose names begin with a text, by name.
pub(crate) async fn read(access: &Access, folder: &str) -> Result<Vec<NamedValue>, Error> {
    let root = access.keys().values();
    let prefix = format!("{root}{folder}");
    let found = access.reader.all(&prefix, "read named values").await?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let value = |kv: &KeyValue| {
        let name = text(kv.key().get(root.len()..).unwrap_or_default());
        let version = u64::try_from(kv.mod_revision()).unwrap_or(0);
        NamedValue::new(name, text(kv.value()), version)
    };
    Ok(found.iter().map(value).collect())
}

/// Sets or deletes a value; `false` when the present value is not the expected one.
pub(crate) async fn set(access: &Access, change: &SetValue) -> Result<bool, Error> {
    const OPERATION: &str = "set a named value";
    change.check()?;
    let key = format!("{}{}", access.keys().values(), change.name);
    for _ in 0..TRIES {
        let found = access.reader.key(&key, OPERATION).await?;
        let revision = found.as_ref().map_or(0, KeyValue::mod_revision);
        let present = found.is_some().then(|| revision.unsigned_abs());
        if !change.expected.is(present) {
            return Ok(false);
        }
        let done = match &change.text {
            None if present.is_none() => return Ok(true),
            None => TxnOp::delete(&*key, None),
            Some(text) => TxnOp::put(&*key, &**text, None),
        };
        let line = AuditEntry {
            at: access.now(),
            by: change.by.clone(),
            what: AuditAction::of_value(change),
        };
        let line = write("history of the namespace", &line)?;
        let txn = Txn::new()
            .when([Compare::mod_revision(&*key, CompareOp::Equal, revision)])
            .and_then([done, TxnOp::put(access.keys().audit(), line, None)]);
        let answer = access.link().write(txn).await;
        if answer
            .map_err(|fault| fault.into_error(OPERATION))?
            .succeeded()
        {
            return Ok(true);
        }
    }
    Err(Error::unavailable(
        OPERATION,
        "other programs change it all the time",
    ))
}
