//! Reads whole ranges in pages, all at one revision. Each page is a sub-range with its own end.
//!
//! etcd counts the rest of a range for every page of it, so the time for all pages of one open
//! range grows with the square of its length. Therefore each page here is a sub-range. Its end is
//! predicted from the density of the keys before it. A wrong prediction costs one more page.

use etcd_client::{GetOptions, GetResponse};
use tokio_util::task::AbortOnDropHandle;

use super::{fault::Fault, link::Link};
use crate::store::etcd::schema::{KeyValue, end_of};

const FIRST_PAGE: i64 = 500;
const LARGEST_PAGE: i64 = 10_000;
/// The target size of a page, in bytes.
const PAGE_BYTES: usize = 2 << 20;
/// How many bytes of a key, after the common prefix, determine its position.
const WINDOW: usize = 16;

/// Returns the position of a key: its bytes after the prefix, as a number.
fn position(key: &[u8], skip: usize) -> u128 {
    let mut bytes = [0; WINDOW];
    for (byte, of_key) in bytes.iter_mut().zip(key.iter().skip(skip)) {
        *byte = *of_key;
    }
    u128::from_be_bytes(bytes)
}

/// Returns the smallest key of this position, as the end of a sub-range.
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

impl Link {
    /// Reads a key as it was at this revision; `None` when it did not exist, or the revision is compacted.
    pub(crate) async fn get_key_at(
        &self,
        key: &str,
        revision: i64,
    ) -> Result<Option<KeyValue>, Fault> {
        let options = GetOptions::new().with_revision(revision.max(1));
        let mut client = self.kv();
        match self.call(client.get(key, Some(options))).await {
            Ok(mut answer) => Ok(answer.take_kvs().pop().map(KeyValue::from)),
            Err(Fault::Compacted) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// Passes every key from `from` (a prefix of all of them) up to `end` (excluded) to `take`, as
    /// of this revision (0: the newest). Returns the revision that was read.
    pub(crate) async fn scan(
        &self,
        revision: i64,
        from: &str,
        end: &[u8],
        take: &mut impl FnMut(KeyValue),
    ) -> Result<i64, Fault> {
        self.pages(GetOptions::new(), revision, from, end, take)
            .await
    }

    /// Like [`scan`](Self::scan), without the values.
    pub(crate) async fn scan_keys(
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
        revision: i64,
        from: &str,
        end: &[u8],
        take: &mut impl FnMut(KeyValue),
    ) -> Result<i64, Fault> {
        let mut pages = Pages::new(from.as_bytes(), end, options, revision);
        let mut asked = pages.next().map(|page| self.ask(page));
        while let Some(answer) = asked {
            let mut answer = answer.await.map_err(|e| Fault::NotNow(e.to_string()))??;
            pages.answered(&answer);
            // The next page is read while this one is processed.
            asked = pages.next().map(|page| self.ask(page));
            let kvs = answer.take_kvs().into_iter();
            kvs.map(KeyValue::from).for_each(&mut *take);
        }
        Ok(pages.revision)
    }

    fn ask(&self, (start, options): (Vec<u8>, GetOptions)) -> Asked {
        let link = self.clone();
        let asked = tokio::spawn(async move {
            let mut client = link.kv();
            link.call(client.get(start, Some(options))).await
        });
        AbortOnDropHandle::new(asked)
    }
}

/// A page that is being read. Dropping it aborts the request.
type Asked = AbortOnDropHandle<Result<GetResponse, Fault>>;

/// The progress through a range, and the next page.
struct Pages<'a> {
    prefix: &'a [u8],
    end: &'a [u8],
    options: GetOptions,
    revision: i64,
    start: Vec<u8>,
    stop: Vec<u8>,
    limit: i64,
    /// The length of a page, in positions.
    stride: Option<u128>,
}

impl<'a> Pages<'a> {
    fn new(prefix: &'a [u8], end: &'a [u8], options: GetOptions, revision: i64) -> Self {
        Self {
            prefix,
            end,
            options,
            revision,
            start: prefix.to_vec(),
            stop: Vec::new(),
            limit: FIRST_PAGE,
            stride: None,
        }
    }

    /// Returns the first key and the options of the next page, if there is one.
    fn next(&mut self) -> Option<(Vec<u8>, GetOptions)> {
        if self.start.as_slice() >= self.end {
            return None;
        }
        let here = position(&self.start, self.prefix.len());
        let stop = self.stride.and_then(|stride| here.checked_add(stride));
        let stop = stop.map(|at| key_at(self.prefix, at));
        let stop = stop.filter(|stop| stop.as_slice() < self.end && *stop > self.start);
        self.stop = stop.unwrap_or_else(|| self.end.to_vec());
        let options = (self.options.clone())
            .with_range(self.stop.clone())
            .with_limit(self.limit)
            .with_revision(self.revision);
        Some((self.start.clone(), options))
    }

    fn answered(&mut self, page: &GetResponse) {
        if self.revision == 0 {
            self.revision = page.header().map_or(0, |header| header.revision());
        }
        let kvs = page.kvs();
        let (count, more) = (kvs.len(), page.more());
        let bytes: usize = kvs.iter().map(|kv| kv.key().len() + kv.value().len()).sum();
        let next = match kvs.last() {
            Some(last) => {
                let here = position(&self.start, self.prefix.len());
                let covered = position(last.key(), self.prefix.len()).saturating_sub(here);
                // The positions per key of this page, times the keys of the next one.
                let share = (self.limit as u128 * 8 / 10).max(1);
                let per_key = covered / (count as u128).max(1);
                self.stride = Some(per_key.saturating_mul(share).max(1));
                more.then(|| [last.key(), &[0]].concat())
            }
            None => {
                self.stride = self.stride.map(|stride| stride.saturating_mul(16));
                None
            }
        };
        self.start = next.unwrap_or_else(|| std::mem::take(&mut self.stop));
        if !more && count < self.limit as usize / 4 {
            self.stride = self.stride.map(|stride| stride.saturating_mul(8));
        }
        let size = (bytes / count.max(1)).max(1);
        let limit = i64::try_from(PAGE_BYTES / size).unwrap_or(LARGEST_PAGE);
        self.limit = limit.clamp(8, LARGEST_PAGE);
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
