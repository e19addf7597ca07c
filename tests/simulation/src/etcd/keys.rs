//! The keys with their versions.

use std::collections::BTreeMap;

use etcd_client::proto::PbKeyValue;

/// What one revision made of a key.
#[derive(Debug, Clone)]
pub(super) struct Version {
    /// The revision.
    pub(super) main: i64,
    /// The key with its value; `None` for a deletion.
    pub(super) kv: Option<PbKeyValue>,
}

/// All keys that are not compacted away, each with its versions in their order.
#[derive(Debug, Default, Clone)]
pub(super) struct Keys(BTreeMap<Vec<u8>, Vec<Version>>);

/// Returns whether a request for `key` and `end` concerns a key: no end means the key alone, a zero byte everything from it on.
pub(super) fn concerns(key: &[u8], end: &[u8], of: &[u8]) -> bool {
    match end {
        [] => of == key,
        [0] => of >= key,
        _ => of >= key && of < end,
    }
}

impl Keys {
    /// Returns the keys of a range as they were at a revision, in their order.
    pub(super) fn at<'a>(
        &'a self,
        key: &'a [u8],
        end: &'a [u8],
        at: i64,
    ) -> impl Iterator<Item = PbKeyValue> + 'a {
        let all = self.0.range(key.to_vec()..);
        let all = all.take_while(move |(of, _)| end == [0] || of.as_slice() < end || *of == key);
        let all = all.filter(move |(of, _)| concerns(key, end, of));
        all.filter_map(move |(_, versions)| {
            let last = versions.iter().rev().find(|version| version.main <= at)?;
            last.kv.clone()
        })
    }

    /// Adds a version. Its revision is greater than those before.
    pub(super) fn add(&mut self, key: Vec<u8>, version: Version) {
        self.0.entry(key).or_default().push(version);
    }

    /// Deletes the versions that no reader at this revision or a later one sees.
    pub(super) fn compact(&mut self, at: i64) {
        self.0.retain(|_, versions| {
            let seen = versions.iter().rposition(|version| version.main <= at);
            if let Some(seen) = seen {
                let is_deletion = versions[seen].kv.is_none();
                versions.drain(..seen + usize::from(is_deletion));
            }
            !versions.is_empty()
        });
    }
}
