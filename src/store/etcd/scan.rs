//! Reading whole ranges: in pages with an end of their own, all at one revision.
//!
//! etcd counts all that remains of a range for every page of it, so pages over one open range take
//! time that grows with the square of its length. Each page here is a sub-range whose end is
//! guessed from the density of the keys before; a guess that is wrong costs one page more.

use etcd_client::{GetOptions, KeyValue};

use super::{Inner, errors::Fault, keys::end_of};
use crate::store::Error;

const OPERATION: &str = "list the tasks";
const FIRST_PAGE: i64 = 500;
const LARGEST_PAGE: i64 = 10_000;
/// How many bytes a page should have.
const PAGE_BYTES: usize = 2 << 20;
/// Bytes of a key, behind what all of them begin with, that are counted with.
const WINDOW: usize = 16;

/// The part of a key that is counted with, as a number.
fn position(key: &[u8], skip: usize) -> u128 {
    let mut bytes = [0; WINDOW];
    for (byte, of_key) in bytes.iter_mut().zip(key.iter().skip(skip)) {
        *byte = *of_key;
    }
    u128::from_be_bytes(bytes)
}

/// The smallest key of this position, as the end of a sub-range.
fn key_at(prefix: &[u8], position: u128) -> Vec<u8> {
    let mut key = prefix.to_vec();
    let bytes = position.to_be_bytes();
    let used = bytes
        .iter()
        .rposition(|b| *b != 0)
        .map_or(1, |last| last + 1);
    key.extend(&bytes[..used]);
    key
}

impl Inner {
    /// Hands every key from `from` (which is a prefix of all of them) to before `end` to `take`;
    /// answers the revision that they were read at.
    pub(super) async fn scan(
        &self,
        from: &str,
        end: &[u8],
        mut take: impl FnMut(KeyValue),
    ) -> Result<i64, Error> {
        let scanned = self.scan_at(0, from, end, &mut take).await;
        scanned.map_err(|fault| fault.into_error(OPERATION))
    }

    /// As [`scan`](Self::scan), at this revision (0: the newest).
    pub(super) async fn scan_at(
        &self,
        revision: i64,
        from: &str,
        end: &[u8],
        take: &mut impl FnMut(KeyValue),
    ) -> Result<i64, Fault> {
        self.pages(GetOptions::new(), revision, from, end, take)
            .await
    }

    /// As [`scan_at`](Self::scan_at), without the values.
    pub(super) async fn scan_keys(
        &self,
        revision: i64,
        from: &str,
        take: &mut impl FnMut(KeyValue),
    ) -> Result<i64, Fault> {
        let options = GetOptions::new().with_keys_only();
        self.pages(options, revision, from, &end_of(from), take)
            .await
    }

    async fn pages(
        &self,
        options: GetOptions,
        mut revision: i64,
        from: &str,
        end: &[u8],
        take: &mut impl FnMut(KeyValue),
    ) -> Result<i64, Fault> {
        let prefix = from.as_bytes();
        let mut start = prefix.to_vec();
        let (mut limit, mut stride) = (FIRST_PAGE, None::<u128>);
        while start.as_slice() < end {
            let here = position(&start, prefix.len());
            let stop = stride.and_then(|stride| here.checked_add(stride));
            let stop = stop.map(|at| key_at(prefix, at));
            let stop = stop.filter(|stop| stop.as_slice() < end && *stop > start);
            let stop = stop.unwrap_or_else(|| end.to_vec());

            let options = (options.clone())
                .with_range(stop.clone())
                .with_limit(limit)
                .with_revision(revision);
            let mut client = self.link.kv();
            let mut page = self
                .link
                .call(client.get(start.clone(), Some(options)))
                .await?;
            if revision == 0 {
                revision = page.header().map_or(0, |header| header.revision());
            }
            let more = page.more();
            let kvs = page.take_kvs();
            let count = kvs.len();
            let bytes: usize = kvs.iter().map(|kv| kv.key().len() + kv.value().len()).sum();
            if let Some(last) = kvs.last() {
                let covered = position(last.key(), prefix.len()).saturating_sub(here);
                // As long as this page needed, for as many as the next one takes.
                let share = (limit as u128 * 8 / 10).max(1);
                let per_key = covered / (count as u128).max(1);
                stride = Some(per_key.saturating_mul(share).max(1));
                if more {
                    start = last.key().to_vec();
                    start.push(0);
                } else {
                    start = stop;
                }
            } else {
                start = stop;
                stride = stride.map(|stride| stride.saturating_mul(16));
            }
            if !more && count < limit as usize / 4 {
                stride = stride.map(|stride| stride.saturating_mul(8));
            }
            let size = (bytes / count.max(1)).max(1);
            limit = i64::try_from(PAGE_BYTES / size).unwrap_or(LARGEST_PAGE);
            limit = limit.clamp(8, LARGEST_PAGE);
            kvs.into_iter().for_each(&mut *take);
        }
        Ok(revision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_keep_the_order_of_keys() {
        let keys = ["p/", "p/a", "p/ab", "p/b", "p/zzzz", "p/ä"];
        let at = keys.map(|key| position(key.as_bytes(), 2));
        assert!(at.is_sorted());
        for (key, at) in keys.iter().zip(at).skip(1) {
            assert_eq!(key_at(b"p/", at), key.as_bytes());
        }
    }
}
