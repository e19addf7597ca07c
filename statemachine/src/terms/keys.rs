//! Keys of limits that contain values of their task.

use serde_json::Value;

use super::Limit;
use crate::{Invalid, Task};

impl Task {
    /// Replaces `{label:NAME}` and `{prop:NAME}` in the keys of the task's limits: by the value of that label, or
    /// by the text, number or boolean at that place of the props (`{prop:customer.id}` for a field of a field).
    /// Programs that make a task call it before they submit the task; a store keeps keys as they are.
    ///
    /// # Errors
    ///
    /// [`Invalid`] (field `limits.key`) when the task has no such label or prop, or the value cannot be in a key.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass_statemachine::{Json, Limit, Task};
    ///
    /// let mut task = Task::new("a".parse()?, "call".parse()?);
    /// task.props = Json::parse("props", r#"{"customer":{"id":7}}"#)?;
    /// task.limits = vec![Limit::at_once("customer={prop:customer.id}", 3)?];
    /// task.fill_limit_keys()?;
    /// assert_eq!(task.limits[0].key(), "customer=7");
    /// # Ok::<(), windlass_statemachine::Invalid>(())
    /// ```
    pub fn fill_limit_keys(&mut self) -> Result<(), Invalid> {
        if !self.limits.iter().any(|limit| limit.key.contains('{')) {
            return Ok(());
        }
        let filled = self.limits.iter().map(|limit| {
            let key = self.filled(&limit.key)?;
            Limit::new(key, limit.bound)
        });
        self.limits = filled.collect::<Result<_, _>>()?;
        Ok(())
    }

    fn filled(&self, key: &str) -> Result<String, Invalid> {
        let wrong = |reason: String| Invalid::new("limits.key", reason);
        let (mut filled, mut rest) = (String::new(), key);
        while let Some((before, after)) = rest.split_once('{') {
            let place = after.split_once('}').and_then(|(place, rest)| {
                let (of, name) = place.split_once(':')?;
                Some((of, name, rest))
            });
            let Some((of, name, behind)) = place.filter(|(of, ..)| matches!(*of, "label" | "prop"))
            else {
                let reason = format!(
                    "{key:?} has a '{{' that begins neither {{label:NAME}} nor {{prop:NAME}}"
                );
                return Err(wrong(reason));
            };
            let value = match of {
                "label" => self.labels.get(name).cloned(),
                _ => self.prop(name),
            };
            let Some(value) = value else {
                let what = match of {
                    "label" => "label",
                    _ => "text, number or boolean in its props",
                };
                let reason = format!("{key:?} names '{name}', and the task has no such {what}");
                return Err(wrong(reason));
            };
            filled.push_str(before);
            filled.push_str(&value);
            rest = behind;
        }
        filled.push_str(rest);
        Ok(filled)
    }

    /// Returns the text of the prop at a place such as `customer.id`.
    fn prop(&self, place: &str) -> Option<String> {
        let props: Value = serde_json::from_str(self.props.as_str()).ok()?;
        let found = place
            .split('.')
            .try_fold(&props, |value, name| value.get(name))?;
        match found {
            Value::String(text) => Some(text.clone()),
            Value::Number(_) | Value::Bool(_) => Some(found.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Json;

    #[test]
    fn keys_take_the_values_of_their_task() {
        let mut task = Task::new("a".parse().unwrap(), "k".parse().unwrap());
        task.labels.insert("site".into(), "Berlin".into());
        let props = r#"{"customer":{"id":7,"path":"a/b","tags":[]},"ok":true}"#;
        task.props = Json::parse("props", props).unwrap();
        let key = |key: &str| {
            let mut task = task.clone();
            task.limits = vec![Limit::at_once(key, 1).unwrap()];
            let filled = task.fill_limit_keys();
            filled.map(|()| task.limits[0].key().to_owned())
        };
        for (given, filled) in [
            ("plain", "plain"),
            ("a}b", "a}b"),
            ("{label:site}", "Berlin"),
            (
                "c={prop:customer.id} on {label:site}, {prop:ok}",
                "c=7 on Berlin, true",
            ),
        ] {
            assert_eq!(key(given).unwrap(), filled);
        }
        for given in [
            "{label:none}",
            "{prop:customer.none}",
            "{prop:customer.tags}",
            "{prop:customer.path}",
            "{customer}",
            "{label:site",
        ] {
            let wrong = key(given).unwrap_err();
            assert_eq!(wrong.field(), "limits.key", "{given}: {wrong}");
        }
    }
}
