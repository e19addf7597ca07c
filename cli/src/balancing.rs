//! [`Balance`]: the balancer of a node, from its option.

use std::{fmt, sync::Arc};

use windlass::{
    Invalid,
    balancer::{Balancer, Fair, Greedy, Load, Memory, Resource, Slower},
};

use crate::parse;

/// The help of the option.
pub(crate) const HELP: &str = "Choose when this node takes a task, and which tasks it releases for other nodes: \
    'greedy' (takes each task that it has room for), 'fair,threshold=120%' (at most this much of the average), \
    'slower,delay=30ms' (waits this long for each task that it has) or 'resource,of=memory,claim=75%,release=90%' \
    (or of=load; claims nothing above 'claim', and releases tasks above 'release'; Linux only). The values shown are \
    the defaults";

/// A balancer.
#[derive(Clone)]
pub(crate) struct Balance {
    pub(crate) balancer: Arc<dyn Balancer>,
}

impl fmt::Debug for Balance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.balancer.fmt(f)
    }
}

/// The values behind the name of a balancer.
struct Values<'a> {
    name: &'a str,
    left: Vec<(&'a str, &'a str)>,
}

impl<'a> Values<'a> {
    fn new(name: &'a str, text: Option<&'a str>) -> Result<Self, String> {
        let mut left: Vec<(&str, &str)> = Vec::new();
        for part in text.into_iter().flat_map(|text| text.split(',')) {
            let value = part.split_once('=');
            let (key, value) = value.ok_or_else(|| {
                format!("'{part}' is not NAME=VALUE; write it like 'fair,threshold=150%'")
            })?;
            if left.iter().any(|(known, _)| *known == key) {
                return Err(format!("'{key}' is given twice; give it once"));
            }
            left.push((key, value));
        }
        Ok(Self { name, left })
    }

    fn take(&mut self, key: &str) -> Option<&'a str> {
        let at = self.left.iter().position(|(known, _)| *known == key)?;
        Some(self.left.remove(at).1)
    }

    fn percent(&mut self, key: &str, default: f64) -> Result<f64, String> {
        let Some(text) = self.take(key) else {
            return Ok(default);
        };
        let number = text.strip_suffix('%').unwrap_or(text).parse();
        let number = number.ok().filter(|n: &f64| n.is_finite() && *n > 0.0);
        number.ok_or_else(|| {
            format!("{key}: '{text}' is not a percentage above 0; write it like {default}%")
        })
    }

    /// Refuses the values that the balancer does not have.
    fn end(self, known: &str) -> Result<(), String> {
        match self.left.first() {
            None => Ok(()),
            Some((key, _)) => Err(format!("'{}' has no '{key}'; it has {known}", self.name)),
        }
    }
}

/// Reads a balancer: its name, and its values after commas.
pub(crate) fn read(text: &str) -> Result<Balance, String> {
    let (name, values) = match text.split_once(',') {
        Some((name, values)) => (name, Some(values)),
        None => (text, None),
    };
    let mut values = Values::new(name, values)?;
    let balancer: Arc<dyn Balancer> = match name {
        "greedy" => {
            values.end("no values")?;
            Arc::new(Greedy)
        }
        "fair" => {
            let percent = values.percent("threshold", 120.0)?;
            values.end("threshold=PERCENT")?;
            if percent < 100.0 {
                return Err(format!(
                    "threshold: {percent}% is below the average; give 100% or more"
                ));
            }
            Arc::new(Fair::new(percent / 100.0))
        }
        "slower" => {
            let delay = values.take("delay").unwrap_or("30ms");
            values.end("delay=DURATION")?;
            let delay = parse::duration(delay).map_err(|e| format!("delay: {e}"))?;
            Arc::new(Slower::new(delay).map_err(|e| format!("delay: {}", e.reason()))?)
        }
        "resource" => resource(values)?,
        _ => {
            return Err(format!(
                "'{name}' is not a balancer; it is greedy, fair, slower or resource"
            ));
        }
    };
    Ok(Balance { balancer })
}

fn resource(mut values: Values<'_>) -> Result<Arc<dyn Balancer>, String> {
    let of = values.take("of").unwrap_or("memory");
    let claim = values.percent("claim", 75.0)?;
    let release = values.percent("release", claim.max(90.0))?;
    values.end("of=memory or of=load, claim=PERCENT and release=PERCENT")?;
    let wrong = |e: Invalid| {
        let name = e.field().trim_end_matches("_limit").to_owned();
        format!("{name}: {}", e.reason())
    };
    match of {
        "memory" => Ok(Arc::new(
            Resource::new(Memory, claim, release).map_err(wrong)?,
        )),
        "load" => Ok(Arc::new(
            Resource::new(Load, claim, release).map_err(wrong)?,
        )),
        _ => Err(format!("of: '{of}' is neither 'memory' nor 'load'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_balancer_has_its_values() {
        let made = |text: &str| format!("{:?}", read(text).unwrap());
        assert_eq!(made("greedy"), "Greedy");
        assert_eq!(made("fair"), format!("{:?}", Fair::default()));
        assert_eq!(made("fair,threshold=150"), format!("{:?}", Fair::new(1.5)));
        assert_eq!(made("fair,threshold=150%"), made("fair,threshold=150"));
        assert_eq!(made("slower"), format!("{:?}", Slower::default()));
        let second = Slower::new(std::time::Duration::from_secs(1)).unwrap();
        assert_eq!(made("slower,delay=1s"), format!("{second:?}"));
        let limits = |claim, release| format!("{:?}", Resource::new(Memory, claim, release));
        let known = |text: &str| format!("Ok({})", made(text));
        assert_eq!(known("resource"), limits(75.0, 90.0));
        assert_eq!(known("resource,claim=95"), limits(95.0, 95.0));
        assert_eq!(known("resource,release=80%,claim=50%"), limits(50.0, 80.0));
        assert!(made("resource,of=load,claim=200%").contains("probe: Load"));
    }

    #[test]
    fn errors_name_the_value_and_what_is_right() {
        for (text, part) in [
            ("faire", "greedy, fair, slower or resource"),
            ("", "is not a balancer"),
            ("greedy,threshold=2", "'greedy' has no 'threshold'"),
            ("fair,150", "'150' is not NAME=VALUE"),
            ("fair,", "'' is not NAME=VALUE"),
            ("fair,threshold=99%", "below the average; give 100% or more"),
            ("fair,threshold=x", "threshold: 'x' is not a percentage"),
            ("fair,threshold=nan", "threshold: 'nan' is not a percentage"),
            ("fair,threshold=120,threshold=130", "given twice"),
            ("slower,delay=0s", "delay: 0ns is not between"),
            ("slower,delay=1h", "delay: 3600s is not between"),
            ("slower,delay=soon", "delay: "),
            ("resource,of=disk", "neither 'memory' nor 'load'"),
            ("resource,claim=90,release=80", "release: 80 is below"),
            ("resource,claim=-1", "claim: '-1' is not a percentage"),
            ("resource,delay=1s", "'resource' has no 'delay'"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
