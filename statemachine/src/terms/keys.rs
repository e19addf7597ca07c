//! Keys of limits that contain values of their task.

use serde_json::Value;

use super::{Limit, check_limits};
use crate::{Invalid, Json, Task};

/// The start of a place for a value of the props.
const PROP: &str = "{prop:";

impl Task {
    /// Replaces `{label:NAME}` and `{prop:NAME}` in the keys of the task's limits: by the value of that label, or
    /// by the text, number or boolean at that place of the props (`{prop:customer.id}` for a field of a field).
    /// Programs that make a task call it before they submit the task; a store keeps keys as they are. A key with a value
    /// of the props keeps its [template](Limit::template), and is filled in from it again.
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
        self.limits = self.filled_limits(&self.limits)?;
        Ok(())
    }

    /// Returns the limits of the task with other props: keys that contain values of the props are filled in again.
    /// `None` when no key does.
    ///
    /// # Errors
    ///
    /// The errors of [`fill_limit_keys`](Self::fill_limit_keys); [`Invalid`] (field `limits`) when two limits then have
    /// the same key.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass_statemachine::{Json, Limit, Task};
    ///
    /// let mut task = Task::new("a".parse()?, "call".parse()?);
    /// task.props = Json::parse("props", r#"{"customer":7}"#)?;
    /// task.limits = vec![Limit::at_once("customer={prop:customer}", 3)?];
    /// task.fill_limit_keys()?;
    /// let other = Json::parse("props", r#"{"customer":8}"#)?;
    /// assert_eq!(task.limits_with(&other)?.unwrap()[0].key(), "customer=8");
    /// # Ok::<(), windlass_statemachine::Invalid>(())
    /// ```
    pub fn limits_with(&self, props: &Json) -> Result<Option<Vec<Limit>>, Invalid> {
        if self.limits.iter().all(|limit| limit.template.is_none()) {
            return Ok(None);
        }
        let changed = Self {
            props: props.clone(),
            ..self.clone()
        };
        let limits = changed.filled_limits(&self.limits)?;
        check_limits(&limits)?;
        Ok(Some(limits))
    }

    fn filled_limits(&self, limits: &[Limit]) -> Result<Vec<Limit>, Invalid> {
        let filled = limits.iter().map(|limit| {
            let given = limit.template().unwrap_or(&limit.key);
            if !given.contains('{') {
                return Ok(limit.clone());
            }
            let template = given.contains(PROP).then(|| given.into());
            let filled = Limit::new(self.filled(given)?, limit.bound)?;
            Ok(Limit { template, ..filled })
        });
        filled.collect()
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

    #[test]
    fn a_key_of_the_props_follows_them_and_keeps_its_template() {
        let mut task = Task::new("a".parse().unwrap(), "k".parse().unwrap());
        let props = |text: &str| Json::parse("props", text).unwrap();
        task.labels.insert("site".into(), "Berlin".into());
        task.props = props(r#"{"c":7}"#);
        let limit = |key: &str| Limit::at_once(key, 1).unwrap();
        task.limits = vec![limit("{label:site}"), limit("plain")];
        task.fill_limit_keys().unwrap();
        assert_eq!(task.limits_with(&props("{}")), Ok(None));
        task.limits.push(limit("c={prop:c} of {label:site}"));
        task.fill_limit_keys().unwrap();
        let stored = serde_json::to_string(&task.limits).unwrap();
        task.limits = serde_json::from_str(&stored).unwrap();
        let after = task.limits_with(&props(r#"{"c":8}"#)).unwrap().unwrap();
        let keys: Vec<&str> = after.iter().map(Limit::key).collect();
        assert_eq!(keys, ["Berlin", "plain", "c=8 of Berlin"]);
        let templates: Vec<_> = after.iter().map(Limit::template).collect();
        assert_eq!(templates, [None, None, Some("c={prop:c} of {label:site}")]);
        let wrong = task.limits_with(&props("7")).unwrap_err();
        assert_eq!(wrong.field(), "limits.key");
        task.limits.push(limit("c=8 of Berlin"));
        let twice = task.limits_with(&props(r#"{"c":8}"#)).unwrap_err();
        assert_eq!(twice.field(), "limits");
    }
}
