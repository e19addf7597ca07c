//! What a waiting task keeps when a submit replaces it.

use super::{Submit, Task};
use crate::task::Labels;

impl Submit {
    /// Returns the fields in which this submit differs from the waiting task that it replaces
    /// ([`ReplaceWaiting`](super::IfExists::ReplaceWaiting)) and which that task keeps: a replacement gives it the props
    /// and the start only, and fills in the keys of its limits again. A field that the submit does not give is not among
    /// them.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass_statemachine::{Submit, Task};
    ///
    /// let waiting = Task::new("index".parse()?, "index".parse()?);
    /// let mut submit = Submit::from(waiting.clone());
    /// assert!(submit.not_taken_over(&waiting).is_empty());
    /// submit.task.priority = 5;
    /// assert_eq!(submit.not_taken_over(&waiting), ["priority"]);
    /// # Ok::<(), windlass_statemachine::Invalid>(())
    /// ```
    pub fn not_taken_over(&self, waiting: &Task) -> Vec<&'static str> {
        // Each field is named, so that a new one has to be assigned to one of the two sides.
        let Task {
            id: _,
            kind: _,
            props: _,
            start_at: _,
            waits: _,
            paused: _,
            priority,
            labels,
            retry,
            limits,
            start_by,
            end_by,
            unique,
            meta,
            free_id,
        } = &self.task;
        let lacks = |own: &Labels, has: &Labels| own.iter().any(|(n, v)| has.get(n) != Some(v));
        let fields = [
            ("priority", ![0, waiting.priority].contains(priority)),
            ("labels", lacks(labels, &waiting.labels)),
            ("retry", retry.is_some() && *retry != waiting.retry),
            ("limits", !limits.is_empty() && *limits != waiting.limits),
            (
                "start_by",
                start_by.is_some() && *start_by != waiting.start_by,
            ),
            ("end_by", end_by.is_some() && *end_by != waiting.end_by),
            ("unique", unique.is_some() && *unique != waiting.unique),
            ("meta", lacks(meta, &waiting.meta)),
            ("free_id", *free_id && !waiting.free_id),
        ];
        let differs = fields.into_iter().filter(|(_, differs)| *differs);
        differs.map(|(field, _)| field).collect()
    }
}
