//! [`Doctor`] for [`Split`].

use async_trait::async_trait;

use super::Split;
use crate::store::{
    Advice, Doctor, Error, Remedy,
    examine::{Examination, Finding, Strays, Verdict},
};

/// How many states an examination loads at once.
const EXAMINED: usize = 1000;

impl Split {
    /// Loads the state of every task. The registry's own examination reads what it stores itself.
    async fn examine_states(&self) -> Finding {
        const CHECK: &str = "state-store";
        let mut unreadable = Strays::default();
        let Some(tasks) = self.registry.transfer() else {
            let error = Error::unsupported(self.registry.name(), "list the states");
            return Finding::unknown(CHECK, &error, "check the states by the store's own means");
        };
        let ids = match tasks.ids().await {
            Ok(ids) => ids,
            Err(error) => return Finding::unknown(CHECK, &error, "check the store first"),
        };
        for page in ids.chunks(EXAMINED) {
            for (id, loaded) in page.iter().zip(self.load(page).await) {
                match loaded {
                    Ok(_) => {}
                    Err(Error::Corrupt { .. }) => unreadable.add(id.to_string()),
                    Err(error) => {
                        let advice = "check whether the state store can be reached";
                        return Finding::unknown(CHECK, &error, advice);
                    }
                }
            }
        }
        let what = (Verdict::Warning, "states that cannot be read");
        let advice = "a list shows the reason; restore the states, or retry the tasks to start them from their props";
        let advice = Advice::new(advice, Remedy::ReadQuarantined);
        Finding::none_of(CHECK, what, &unreadable, 0, advice)
    }
}

#[async_trait]
impl Doctor for Split {
    async fn examine(&self, how: &Examination) -> Result<Vec<Finding>, Error> {
        let mut findings = match self.registry.doctor() {
            Some(inner) => inner.examine(how).await?,
            None => Vec::new(),
        };
        findings.push(self.examine_states().await);
        Ok(findings)
    }
}
