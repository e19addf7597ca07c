//! [`Refusals`]: the refusals of one transaction.

use std::fmt;

use super::{Part, Refusal};

/// How many refusals the text of [`Refusals`] shows.
const SHOWN: usize = 5;

/// Every refused guard and operation of a transaction, or of the effects of a message: guards first, each kind
/// in order. Nothing was applied, and the task of the message did not change.
///
/// # Example
///
/// ```
/// use windlass::{Client, store::{Error, Reason, Store}};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
/// let client = Client::new(&Store::open("memory:").await?);
/// let transaction = client.transaction().delete("a").delete("b");
/// let Err(Error::Refused(refusals)) = transaction.commit().await else {
///     panic!("neither task exists");
/// };
/// assert!(refusals.iter().all(|refusal| refusal.reason == Reason::Missing));
/// assert_eq!(
///     refusals.to_string(),
///     "could not apply the transaction: operations[0]: task 'a' does not exist; operations[1]: task \
///      'b' does not exist; nothing was changed"
/// );
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(transparent)]
pub struct Refusals {
    list: Vec<Refusal>,
    /// What a single operation would have done: `reschedule a task`.
    #[serde(skip)]
    verb: Option<&'static str>,
}

impl Refusals {
    /// Returns these refusals, for a custom store, which must list at least one.
    pub fn new(refusals: Vec<Refusal>) -> Self {
        let (list, verb) = (refusals, None);
        Self { list, verb }
    }

    /// Returns the same refusals, of a single operation that does this.
    pub(crate) fn of_single(mut self, verb: &'static str) -> Self {
        self.verb = Some(verb);
        self
    }

    /// Returns each refusal.
    pub fn iter(&self) -> std::slice::Iter<'_, Refusal> {
        self.list.iter()
    }
}

impl<'a> IntoIterator for &'a Refusals {
    type Item = &'a Refusal;
    type IntoIter = std::slice::Iter<'a, Refusal>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Refusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of_effects = |one: &Refusal| matches!(one.part, Part::Effect { .. });
        match (self.verb, self.list.iter().any(of_effects)) {
            (Some(verb), _) => write!(f, "could not {verb}: ")?,
            (None, true) => f.write_str("could not apply the effects: ")?,
            (None, false) => f.write_str("could not apply the transaction: ")?,
        }
        for (at, refusal) in self.list.iter().take(SHOWN).enumerate() {
            if at > 0 {
                f.write_str("; ")?;
            }
            if self.verb.is_none() {
                write!(f, "{}: ", refusal.part)?;
            }
            write!(f, "{refusal}")?;
        }
        if let Some(more) = self.list.len().checked_sub(SHOWN).filter(|more| *more > 0) {
            write!(f, "; {more} more are refused")?;
        }
        // A command for many tasks makes a transaction for each, and may have changed others.
        match self.verb {
            Some(_) => Ok(()),
            None => f.write_str("; nothing was changed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::refusal::tests::refusal, *};
    use crate::store::{Error, Reason};

    #[test]
    fn the_error_of_a_single_operation_names_it() {
        let refusals = || Refusals::new(vec![refusal(Reason::Missing)]);
        let of_single = refusals().of_single("reschedule a task").to_string();
        assert_eq!(
            of_single,
            "could not reschedule a task: task 'a' does not exist"
        );
        let of_many = "could not apply the transaction: operations[3]: task 'a' does not exist; nothing was changed";
        assert_eq!(refusals().to_string(), of_many);
    }

    #[test]
    fn a_long_list_is_cut_short_in_the_text_alone() {
        let many = (0..7).map(|_| refusal(Reason::Missing)).collect();
        let Some(Error::Refused(refusals)) = Refusals::error(many) else {
            panic!("there are refusals");
        };
        assert_eq!(refusals.iter().count(), 7);
        let text = refusals.to_string();
        assert_eq!(text.matches("does not exist").count(), SHOWN);
        assert!(
            text.ends_with("; 2 more are refused; nothing was changed"),
            "{text}"
        );
        assert!(Refusals::error(Vec::new()).is_none());
        let part = Part::Effect {
            field: "delete",
            index: 1,
        };
        let refused = Refusal {
            part,
            ..refusal(Reason::Missing)
        };
        let text = "could not apply the effects: effects.delete[1]: task 'a' does not exist; nothing was changed";
        assert_eq!(Refusals::new(vec![refused]).to_string(), text);
    }
}
