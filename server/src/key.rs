//! The header `Idempotency-Key`.

use axum::http::HeaderMap;
use sha2::{Digest, Sha256};

use crate::{auth::to_hex, problem::Problem};

/// The name of the header that makes a repetition have no further effect.
pub(crate) const KEY: &str = "Idempotency-Key";
/// The most characters of an `Idempotency-Key`.
const LONGEST_KEY: usize = 256;

/// Returns the `Idempotency-Key` of a request as the beginning of a transaction's id: the key is the caller's own.
pub(crate) fn key_of(headers: &HeaderMap, caller: &str) -> Result<Option<String>, Problem> {
    let mut keys = headers.get_all(KEY).iter();
    let Some(key) = keys.next() else {
        return Ok(None);
    };
    let text = key.to_str().ok().filter(|text| !text.is_empty());
    let text = text.filter(|text| text.len() <= LONGEST_KEY && keys.next().is_none());
    let Some(text) = text else {
        let what = format!("is not one text of 1 to {LONGEST_KEY} printable ASCII characters");
        return Err(Problem::invalid(KEY, what));
    };
    let hash = Sha256::new()
        .chain_update(caller)
        .chain_update([0])
        .chain_update(text)
        .finalize();
    Ok(Some(to_hex(hash.get(..16).unwrap_or_default())))
}

/// Returns what stands for the body of a request.
pub(crate) fn hash_of(body: &[u8]) -> String {
    to_hex(Sha256::digest(body).get(..16).unwrap_or_default())
}

/// Refuses a key for a request that has it not.
pub(crate) fn refuse_key(headers: &HeaderMap) -> Result<(), Problem> {
    match headers.contains_key(KEY) {
        false => Ok(()),
        true => Err(Problem::invalid(
            KEY,
            "is not for this request; leave it out",
        )),
    }
}
