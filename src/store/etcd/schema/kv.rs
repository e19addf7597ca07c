//! [`KeyValue`]: a key with its value, as stored in etcd.

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct KeyValue {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    /// The revision that created the key, and the one that last wrote it.
    pub(crate) created: i64,
    pub(crate) written: i64,
    pub(crate) lease: i64,
}

impl KeyValue {
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    pub(crate) fn value(&self) -> &[u8] {
        &self.value
    }

    pub(crate) fn create_revision(&self) -> i64 {
        self.created
    }

    pub(crate) fn mod_revision(&self) -> i64 {
        self.written
    }

    pub(crate) fn lease(&self) -> i64 {
        self.lease
    }

    /// Returns a key without a lease that was written once.
    #[cfg(test)]
    pub(crate) fn new(key: &str, value: &str, revision: i64) -> Self {
        Self {
            key: key.into(),
            value: value.into(),
            created: revision,
            written: revision,
            lease: 0,
        }
    }
}

/// Returns the revision that last wrote a key; 0 if it does not exist.
pub(crate) fn revision(kv: Option<&KeyValue>) -> i64 {
    kv.map_or(0, KeyValue::mod_revision)
}
