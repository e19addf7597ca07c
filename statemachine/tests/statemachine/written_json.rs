//! Tasks and policies in JSON that a person wrote: names alone, and errors that name the field.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use windlass_statemachine::{Retry, Task};

#[test]
fn a_policy_needs_no_more_than_its_name() {
    for (text, retry) in [
        (r#"{"policy":"strikes"}"#, Retry::strikes()),
        (r#"{"policy":"exponential"}"#, Retry::default()),
    ] {
        assert_eq!(serde_json::from_str::<Retry>(text).unwrap(), retry);
    }
    for (text, says) in [
        (r#"{"policy":"sometimes"}"#, "unknown variant `sometimes`"),
        (r#"{"policy":"strikes","error":3}"#, "unknown field `error`"),
        (
            r#"{"policy":"strikes","sleep":"soon"}"#,
            "'soon' is not a length of time; write it like 10m",
        ),
        (
            r#"{"policy":"strikes","sleep":"-1s"}"#,
            "'-1s' is not a length",
        ),
    ] {
        let error = serde_json::from_str::<Retry>(text).unwrap_err().to_string();
        assert!(error.contains(says), "{text}: {error}");
    }
}

#[test]
fn tasks_that_cannot_be() {
    for (text, says) in [
        (r#"{"id":"t"}"#, "missing field `kind`"),
        (r#"{"id":"a/b","kind":"k"}"#, "id: 'a/b' contains '/'"),
        (r#"{"id":"t","kind":"_k"}"#, "kind: '_k' begins with '_'"),
        (
            r#"{"id":"t","kind":"k","start_at":"soon"}"#,
            "start_at: 'soon'",
        ),
        (
            r#"{"id":"t","kind":"k","priority":2147483648}"#,
            "2147483648",
        ),
    ] {
        let error = serde_json::from_str::<Task>(text).unwrap_err().to_string();
        assert!(error.contains(says), "{text}: {error}");
    }
}
