//! The pages of a list, and the cursors of the change feed.

use windlass_statemachine::Invalid;

use crate::store::{Error, Page};

/// The largest page of a list.
const MAX_PAGE: u32 = 10_000;

/// Checks the size of a page.
///
/// # Errors
///
/// [`Error::Invalid`] (field `limit`).
pub(crate) fn check(page: Page) -> Result<(), Error> {
    if (1..=MAX_PAGE).contains(&page.limit) {
        return Ok(());
    }
    let reason = format!("is {}; give 1 to {MAX_PAGE}", page.limit);
    Err(Invalid::new("limit", reason).into())
}

/// The history after the change `after` is not kept any more.
pub(crate) fn pruned(after: u64) -> Error {
    let reason = format!(
        "is {after}, and the history after it is pruned; list the tasks, then follow from now on"
    );
    Invalid::new("after", reason).into()
}

/// No change has the number `after` yet: the newest is `newest`.
pub(crate) fn beyond(after: u64, newest: u64) -> Error {
    let reason = format!("is {after}, but the newest change is {newest}");
    Invalid::new("after", reason).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_1_to_10000_tasks() {
        let page = |limit| check(Page { after: 0, limit });
        for limit in [1, 1000, 10_000] {
            assert!(page(limit).is_ok(), "{limit}");
        }
        for limit in [0, 10_001, u32::MAX] {
            let text = page(limit).unwrap_err().to_string();
            assert_eq!(text, format!("limit: is {limit}; give 1 to 10000"));
        }
    }

    #[test]
    fn cursors_are_refused_with_their_number() {
        for error in [pruned(5), beyond(5, 3)] {
            let text = error.to_string();
            assert!(text.starts_with("after: is 5"), "{text}");
        }
    }
}
