//! The named values.

use jiff::Timestamp;

use super::world::World;
use crate::store::{AuditAction, AuditEntry, Error, NamedValue, SetValue};

impl World {
    pub(super) fn values_in(&self, folder: &str) -> Vec<NamedValue> {
        let all = self.values.range(folder.to_owned()..);
        let within = all.take_while(|(name, _)| name.starts_with(folder));
        within.map(|(_, value)| value.clone()).collect()
    }

    pub(super) fn set_value(&mut self, change: &SetValue, at: Timestamp) -> Result<bool, Error> {
        change.check()?;
        let present = self.values.get(&change.name).map(|value| value.version);
        if !change.expected.is(present) {
            return Ok(false);
        }
        match &change.text {
            None if present.is_none() => return Ok(true),
            None => {
                self.values.remove(&change.name);
            }
            Some(text) => {
                self.value_writes += 1;
                let value = NamedValue::new(&change.name, text, self.value_writes);
                self.values.insert(change.name.clone(), value);
            }
        }
        self.audit.push_back(AuditEntry {
            at,
            by: change.by.clone(),
            what: AuditAction::of_value(change),
        });
        Ok(true)
    }
}
