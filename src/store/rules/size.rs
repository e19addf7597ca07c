//! How many bytes a task may have.

use windlass_statemachine::{Task, TaskState, size::Size};

use crate::store::{Error, Limits, Operation, Transaction};

/// Checks a task that is submitted or imported.
///
/// # Errors
///
/// [`Error::TooLarge`] (field `props`), and [`Error::Invalid`] that names the field for labels and
/// a retry policy.
pub(crate) fn check_task(task: &Task, limit: usize) -> Result<(), Error> {
    let bytes = task.props.len();
    if bytes > limit {
        return Err(Error::too_large("props", bytes, limit));
    }
    Ok(task.check(limit)?)
}

/// Checks the data and the result of a state, together with `props` bytes of props. A state with
/// neither always fits.
///
/// # Errors
///
/// [`Error::TooLarge`] that names the larger of `data` and `result`, with the bytes of all three.
pub(crate) fn check(size: Size, props: usize, limit: usize) -> Result<(), Error> {
    if size.fits(limit.saturating_sub(props)) {
        return Ok(());
    }
    let bytes = props.saturating_add(size.bytes());
    Err(Error::too_large(size.largest(), bytes, limit))
}

/// Checks only a state, as a state store keeps it.
///
/// # Errors
///
/// The errors of [`check`].
pub(crate) fn check_state(state: &TaskState, limit: usize) -> Result<(), Error> {
    check(Size::of(state), 0, limit)
}

/// Checks the total size of a transaction's operations. A transaction applies in full or not at all, so its write
/// cannot be divided.
///
/// # Errors
///
/// [`Error::TooLarge`] (field `operations`).
pub(crate) fn check_operations(bytes: usize) -> Result<(), Error> {
    match bytes <= Limits::WRITE_BYTES {
        true => Ok(()),
        false => Err(Error::too_large("operations", bytes, Limits::WRITE_BYTES)),
    }
}

/// The size of an item of a write, or of a whole write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Weight {
    pub(crate) operations: usize,
    pub(crate) bytes: usize,
}

impl Weight {
    /// Returns the size of a transaction.
    pub(crate) fn of(transaction: &Transaction) -> Self {
        let operations = transaction.operations();
        Self {
            operations: operations.len(),
            bytes: operations.iter().map(Operation::bytes).sum(),
        }
    }
}

/// Divides items among writes, in order: each write has at most [`Limits::WRITE_OPERATIONS`] and [`Limits::WRITE_BYTES`], or a
/// single item. Copies nothing if one write is enough.
pub(crate) fn writes<T>(
    items: Vec<T>,
    weight: impl Fn(&T) -> Weight,
) -> impl Iterator<Item = (Weight, Vec<T>)> {
    let mut rest = std::collections::VecDeque::from(items);
    std::iter::from_fn(move || {
        let (mut have, mut count) = (Weight::default(), 0);
        for more in rest.iter().map(&weight) {
            let with = Weight {
                operations: have.operations + more.operations.max(1),
                bytes: have.bytes + more.bytes,
            };
            let fits =
                with.operations <= Limits::WRITE_OPERATIONS && with.bytes <= Limits::WRITE_BYTES;
            if count > 0 && !fits {
                break;
            }
            have = with;
            count += 1;
        }
        let write = match count == rest.len() {
            true => std::mem::take(&mut rest).into(),
            false => rest.drain(..count).collect::<Vec<T>>(),
        };
        (!write.is_empty()).then_some((have, write))
    })
}

#[cfg(test)]
mod tests {
    use windlass_statemachine::Json;

    use super::*;

    fn reported(result: Result<(), Error>) -> Option<(&'static str, usize)> {
        match result {
            Ok(()) => None,
            Err(Error::TooLarge { field, bytes, .. }) => Some((field, bytes)),
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn props_fill_a_store_to_the_last_byte() {
        let mut task = Task::new("a".parse().unwrap(), "k".parse().unwrap());
        task.props = Json::new("props", &"x".repeat(8)).unwrap();
        assert_eq!(reported(check_task(&task, 10)), None);
        assert_eq!(reported(check_task(&task, 9)), Some(("props", 10)));
    }

    #[test]
    fn a_write_has_a_bound_in_bytes_and_keeps_the_order() {
        let half = Limits::WRITE_BYTES / 2;
        let items = vec![half, half, 1, 3 * half, half, 1];
        let weight = |bytes: &usize| Weight {
            operations: 1,
            bytes: *bytes,
        };
        let divided = writes(items, weight).map(|(weight, items)| (weight.bytes, items));
        let divided: Vec<_> = divided.collect();
        let expected = [
            (2 * half, vec![half, half]),
            (1, vec![1]),
            (3 * half, vec![3 * half]),
            (half + 1, vec![half, 1]),
        ];
        assert_eq!(divided, expected);
        assert_eq!(writes(Vec::<usize>::new(), weight).count(), 0);
    }

    #[test]
    fn a_write_has_a_bound_in_operations() {
        let most = Limits::WRITE_OPERATIONS;
        let weight = |operations: &usize| Weight {
            operations: *operations,
            bytes: 0,
        };
        let items = vec![most - 1, 0, 1, 3 * most, 1];
        let divided: Vec<_> = writes(items, weight).map(|(_, items)| items).collect();
        let expected = [vec![most - 1, 0], vec![1], vec![3 * most], vec![1]];
        assert_eq!(divided, expected);
    }

    #[test]
    fn labels_are_checked_too() {
        let mut task = Task::new("a".parse().unwrap(), "k".parse().unwrap());
        task.labels.insert("a=b".into(), String::new());
        let refused = check_task(&task, 10).unwrap_err();
        assert!(
            matches!(&refused, Error::Invalid(i) if i.field() == "labels"),
            "{refused:?}"
        );
    }

    #[test]
    fn props_data_and_result_count_together() {
        let size = |data, result| Size {
            data,
            result,
            reply: 0,
        };
        let more = |reply| Size {
            reply,
            ..size(3, 2)
        };
        assert_eq!(reported(check(more(5), 0, 9)), Some(("reply", 10)));
        let (size, other) = (size(3, 4), size(4, 4));
        assert_eq!(reported(check(size, 3, 10)), None);
        assert_eq!(reported(check(size, 4, 10)), Some(("result", 11)));
        assert_eq!(reported(check(other, 4, 10)), Some(("data", 12)));
    }

    #[test]
    fn a_state_alone_fills_a_store_to_the_last_byte() {
        let state = TaskState {
            data: Some(Json::new("data", &"x".repeat(8)).unwrap()),
            ..TaskState::new(jiff::Timestamp::UNIX_EPOCH)
        };
        assert_eq!(reported(check_state(&state, 10)), None);
        assert_eq!(reported(check_state(&state, 9)), Some(("data", 10)));
    }

    #[test]
    fn a_state_without_data_fits_beside_any_props() {
        assert_eq!(reported(check(Size::default(), 99, 10)), None);
    }
}
