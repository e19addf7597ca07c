//! Tasks that are not stored as they were submitted.

use windlass::{Bound, Limit, Task, store::Submit};

/// The task with every number of its props as a floating-point number.
pub(crate) fn with_floats(mut submit: Submit) -> Submit {
    fn convert(value: &mut serde_json::Value) {
        match value {
            serde_json::Value::Number(n) => *value = n.as_f64().into(),
            serde_json::Value::Array(items) => items.iter_mut().for_each(convert),
            serde_json::Value::Object(fields) => fields.values_mut().for_each(convert),
            _ => {}
        }
    }
    let mut props: serde_json::Value = serde_json::from_str(submit.task.props.as_str()).unwrap();
    convert(&mut props);
    submit.task.props = props.into();
    submit
}

/// Makes slots that are taken at once stay taken.
pub(crate) fn never_free(task: &mut Task) {
    for limit in &mut task.limits {
        if let Bound::AtOnce(most) = limit.bound() {
            let week = std::time::Duration::from_secs(7 * 24 * 60 * 60);
            *limit = Limit::starts(limit.key(), most, week).unwrap();
        }
    }
}
