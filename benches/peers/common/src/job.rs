//! [`Job`]: the command line of a program.

use std::{collections::BTreeMap, path::PathBuf, str::FromStr, time::Duration};

use crate::Error;

/// A job and its parameters: `NAME key=value…`.
#[derive(Debug, Clone)]
pub struct Job {
    /// The name of the job.
    pub name: String,
    /// The folder of the store.
    pub dir: PathBuf,
    /// The number of tasks.
    pub count: usize,
    /// The number of callers that submit at once, or of handlers that run at once.
    pub slots: usize,
    /// The bytes of a task's payload, as JSON.
    pub bytes: usize,
    /// The time after which a job ends with what it has done.
    pub limit: Duration,
    others: BTreeMap<String, String>,
}

impl Job {
    /// Parses the command line.
    ///
    /// # Errors
    ///
    /// A parameter is missing or has no valid value.
    pub fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, Error> {
        let name = args.next().ok_or("write: PROGRAM JOB key=value…")?;
        let mut others = BTreeMap::new();
        for arg in args {
            let (key, value) = arg
                .split_once('=')
                .ok_or_else(|| format!("'{arg}' is no key=value"))?;
            others.insert(key.to_owned(), value.to_owned());
        }
        let mut job = Self {
            name,
            dir: PathBuf::new(),
            count: 0,
            slots: 0,
            bytes: 0,
            limit: Duration::ZERO,
            others,
        };
        job.dir = job.get("dir")?;
        job.count = job.get("count")?;
        job.slots = job.get("slots")?;
        job.bytes = job.get("bytes")?;
        job.limit = Duration::from_secs(job.get("limit")?);
        Ok(job)
    }

    /// Returns a parameter.
    ///
    /// # Errors
    ///
    /// The parameter is missing or has no valid value.
    pub fn get<T: FromStr>(&self, key: &str) -> Result<T, Error> {
        let value = self
            .others
            .get(key)
            .ok_or_else(|| format!("parameter '{key}' is missing"))?;
        (value.parse()).map_err(|_| format!("parameter {key}={value} is not valid").into())
    }

    /// Returns the setting of the system under test, such as its level of `synchronous`.
    ///
    /// # Errors
    ///
    /// The parameter `setting` is missing.
    pub fn setting(&self) -> Result<String, Error> {
        self.get("setting")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Job, Error> {
        Job::parse(line.split(' ').map(ToOwned::to_owned))
    }

    #[test]
    fn parameters_have_names() {
        let job = parse("submit dir=/d count=10 slots=2 bytes=300 limit=5 setting=full").unwrap();
        assert_eq!((job.count, job.slots, job.bytes), (10, 2, 300));
        assert_eq!(job.setting().unwrap(), "full");
        let missing = job.get::<usize>("other").unwrap_err().to_string();
        assert_eq!(missing, "parameter 'other' is missing");
    }

    #[test]
    fn a_wrong_value_is_named() {
        let error = parse("submit dir=/d count=ten").unwrap_err().to_string();
        assert_eq!(error, "parameter count=ten is not valid");
    }
}
