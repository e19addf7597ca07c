//! [`Terms`]: the special settings of a worker, as arguments of its program.

use std::time::Duration;

use crate::BoxError;

/// On which terms a worker of the library runs tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Terms {
    /// How many handlers it runs at once, if not the usual number.
    pub slots: Option<u32>,
    /// Runs only these kinds; empty for all.
    pub kinds: Vec<String>,
    /// Runs only tasks that have this value of the label [`SIDE`].
    pub side: Option<String>,
    /// Uses the fair balancer.
    pub fair: bool,
    /// Has no handlers, and claims tasks in loops of its own.
    pub pulls: bool,
    /// Prunes tasks that ended this long ago; a worker without it prunes nothing.
    pub retention: Option<Duration>,
}

/// The label that chooses between workers.
pub const SIDE: &str = "side";

impl Terms {
    /// Returns the arguments that [`parse`](Self::parse) reads.
    pub fn to_args(&self) -> Vec<String> {
        let mut args = Vec::new();
        args.extend(self.slots.map(|slots| format!("slots={slots}")));
        args.extend(self.kinds.iter().map(|kind| format!("kind={kind}")));
        args.extend(self.side.iter().map(|side| format!("side={side}")));
        args.extend(self.fair.then(|| "fair=true".to_owned()));
        args.extend(self.pulls.then(|| "pulls=true".to_owned()));
        let retention = self.retention.map(|keep| keep.as_millis());
        args.extend(retention.map(|ms| format!("retention={ms}")));
        args
    }

    /// Returns whether a worker on these terms runs tasks of this kind.
    pub fn take(&self, kind: &str) -> bool {
        self.kinds.is_empty() || self.kinds.iter().any(|k| k == kind)
    }

    /// Reads arguments.
    ///
    /// # Errors
    ///
    /// When one is not one of these.
    pub fn parse(args: &[String]) -> Result<Self, BoxError> {
        let mut terms = Self::default();
        for arg in args {
            match arg.split_once('=') {
                Some(("slots", slots)) => terms.slots = Some(slots.parse()?),
                Some(("kind", kind)) => terms.kinds.push(kind.to_owned()),
                Some(("side", side)) => terms.side = Some(side.to_owned()),
                Some(("fair", fair)) => terms.fair = fair.parse()?,
                Some(("pulls", pulls)) => terms.pulls = pulls.parse()?,
                Some(("retention", ms)) => {
                    terms.retention = Some(Duration::from_millis(ms.parse()?));
                }
                _ => return Err(format!("'{arg}' is no term of a worker").into()),
            }
        }
        Ok(terms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_read_back_from_their_arguments() {
        let terms = Terms {
            slots: Some(3),
            kinds: vec!["steps".into(), "naps".into()],
            side: Some("a".into()),
            fair: true,
            pulls: true,
            retention: Some(Duration::from_millis(1500)),
        };
        assert_eq!(Terms::parse(&terms.to_args()).unwrap(), terms);
        assert_eq!(Terms::parse(&[]).unwrap(), Terms::default());
        assert!(Terms::parse(&["slots".into()]).is_err());
    }
}
