//! The errors of a store without the values that they may quote.

use windlass::{
    Invalid,
    store::{Error, Reason, Refusals},
};

/// The fields of errors of a store and of a schedule whose texts never quote a value of a task.
const HARMLESS: [&str; 27] = [
    "after",
    "at",
    "command id",
    "count",
    "cron",
    "description",
    "due",
    "end",
    "end_within",
    "every",
    "except",
    "id",
    "jitter",
    "kind",
    "missed",
    "offset",
    "operations",
    "overlap",
    "paused",
    "reschedule",
    "start",
    "start_within",
    "state",
    "time",
    "to",
    "until",
    "zone",
];

/// Returns the result of a store as it is shown. With `hides` values of the task are masked, and an error about a field may
/// quote one, such as the key of a limit that was filled in from the props: its text is shown only if it is known to quote none.
pub(crate) fn masked_result<T>(
    applied: Option<Result<T, Error>>,
    hides: bool,
) -> Option<Result<T, Error>> {
    match hides {
        true => applied.map(|applied| applied.map_err(without_values)),
        false => applied,
    }
}

/// Returns an error that quotes no value of a task.
pub(crate) fn without_values(error: Error) -> Error {
    match error {
        Error::Invalid(invalid) => without_value(invalid).into(),
        Error::TooLarge { field, limit, .. } => too_large(field, limit).into(),
        Error::Refused(refusals) => {
            let refusals = refusals.iter().cloned().map(|mut refusal| {
                refusal.reason = match refusal.reason {
                    Reason::Invalid(invalid) => Reason::Invalid(without_value(invalid)),
                    Reason::TooLarge { field, limit, .. } => {
                        Reason::Invalid(too_large(field, limit))
                    }
                    reason => reason,
                };
                refusal
            });
            Error::Refused(Refusals::new(refusals.collect()))
        }
        error => error,
    }
}

fn without_value(invalid: Invalid) -> Invalid {
    // Of a part of a field: cron[1].
    let field = invalid.field();
    let whole = field.split(['.', '[']).next().unwrap_or(field);
    if HARMLESS.contains(&whole) || matches!(field, "start_at" | "transaction id") {
        return invalid;
    }
    let reason = "is not valid for this task; the reason is not shown, because it may quote a value that is masked. A program \
                  that opens the store itself gets it";
    Invalid::new(invalid.field().to_owned(), reason)
}

/// Returns the error of a field that is too large, without its length: with that of what was given it tells the length of a
/// masked value.
fn too_large(field: &'static str, limit: usize) -> Invalid {
    let reason = format!(
        "has more bytes than the store takes, at most {limit}; its length is not shown, because values of the task are masked"
    );
    Invalid::new(field, reason)
}

#[cfg(test)]
mod tests {
    use windlass::store::{Part, Refusal};

    use super::*;

    #[test]
    fn an_error_of_the_store_quotes_no_value_unless_it_is_known_to_quote_none() {
        let quoting = |field: &'static str| Invalid::new(field, "has 'hunter2'");
        let refused = |reason: Reason| {
            let task = "a".parse().unwrap_or_else(|e| panic!("{e}"));
            let refusal = Refusal::new(Part::Operation(0), task, reason);
            Error::Refused(Refusals::new(vec![refusal]))
        };
        for field in ["limits", "limits.key", "props", "of a later version"] {
            for error in [
                quoting(field).into(),
                refused(Reason::Invalid(quoting(field))),
            ] {
                let shown = without_values(error).to_string();
                assert!(!shown.contains("hunter2"), "{shown}");
                assert!(shown.contains(field), "{shown}");
            }
        }
        let (field, bytes, limit) = ("props", 1234, 1000);
        for error in [
            Error::too_large(field, bytes, limit),
            refused(Reason::TooLarge {
                field,
                bytes,
                limit,
            }),
        ] {
            let shown = without_values(error).to_string();
            assert!(!shown.contains("1234") && shown.contains("1000"), "{shown}");
        }
        let shown = without_values(Error::not_retried(windlass::StateKind::Paused)).to_string();
        assert!(shown.contains("is paused"), "{shown}");
    }
}
