//! Times as text: those of a spec, and local ones.

use jiff::{SignedDuration, Zoned};
use serde_json::{Map, Value, json};
use windlass::schedule::{Schedule, Time};

/// Returns a local time with its offset and the name of its zone.
pub(super) fn local(time: &Zoned) -> String {
    let zone = time.time_zone().iana_name().unwrap_or_default();
    format!("{} {zone}", time.strftime("%a %Y-%m-%d %H:%M:%S %:z"))
}

/// Returns the local form of each time. Marks a time before which the clocks have changed.
pub(super) fn upcoming(times: &[Time]) -> Vec<String> {
    let befores = std::iter::once(None).chain(times.iter().map(Some));
    let each = times.iter().zip(befores);
    each.map(|(time, before)| {
        let forward = before.map_or(0, |before| {
            time.local.offset().seconds() - before.local.offset().seconds()
        });
        let by = SignedDuration::from_secs(i64::from(forward.abs()));
        let change = match forward {
            0 => String::new(),
            1.. => format!(" (the clocks go forward by {by:#} before it)"),
            _ => format!(" (the clocks go back by {by:#} before it)"),
        };
        format!("{}{change}", local(&time.local))
    })
    .collect()
}

/// The fields that give times.
pub(super) const TIMES: [&str; 3] = ["cron", "every", "at"];

/// Returns the times of one of these fields, in short.
pub(super) fn time_texts(spec: &Map<String, Value>, field: &str) -> Vec<String> {
    let list = spec.get(field).and_then(Value::as_array);
    let text = |value: &Value| match value.get("interval") {
        Some(interval) => Some(format!("every {}", interval.as_str().unwrap_or("?"))),
        None => value.as_str().map(str::to_owned),
    };
    list.into_iter().flatten().filter_map(text).collect()
}

/// Returns what the runs of a spec do: the line for a shell, or the command with its arguments; the kind of other tasks.
pub(super) fn work(spec: &Value) -> String {
    let props = &spec["run"]["props"];
    let kind = spec["run"]["kind"].as_str().unwrap_or_default();
    if !crate::exec::KINDS.contains(&kind) {
        return kind.to_owned();
    }
    let words = ["shell", "command"].map(|field| props[field].as_str().map(str::to_owned));
    let args = props["args"].as_array().into_iter().flatten();
    let args = args.filter_map(|arg| arg.as_str().map(str::to_owned));
    let words: Vec<String> = words.into_iter().flatten().chain(args).collect();
    words.join(" ")
}

/// Returns whether a schedule runs at the start of a machine.
pub(super) fn has_reboot(schedule: &Schedule) -> bool {
    let spec = json!(schedule);
    let cron = spec["cron"].as_array().into_iter().flatten();
    let mut texts = cron.filter_map(|text| text.as_str());
    texts.any(|text| text.trim().eq_ignore_ascii_case("@reboot"))
}

#[cfg(test)]
mod tests {
    use windlass::{NewTask, schedule::Schedule};

    use super::*;

    #[test]
    fn the_work_of_a_schedule_is_its_command_or_its_kind() {
        for (run, expected) in [
            (
                json!({"kind": "exec", "props": {"shell": "a | b"}}),
                "a | b",
            ),
            (
                json!({"kind": "exec", "props": {"command": "tar", "args": ["czf", "x"]}}),
                "tar czf x",
            ),
            (
                json!({"kind": "report", "props": {"shell": "no"}}),
                "report",
            ),
        ] {
            assert_eq!(work(&json!({ "run": run })), expected);
        }
    }

    #[test]
    fn a_time_says_that_the_clocks_have_changed_before_it() {
        let spec = Schedule::new(NewTask::new("k")).cron("30 2 * * *");
        let after = "2030-03-29T12:00:00Z".parse().unwrap();
        let times = spec.zone("Europe/Berlin").preview("s", after, 3).unwrap();
        let expected = [
            "Sat 2030-03-30 02:30:00 +01:00 Europe/Berlin",
            "Sun 2030-03-31 03:00:00 +02:00 Europe/Berlin (the clocks go forward by 1h before it)",
            "Mon 2030-04-01 02:30:00 +02:00 Europe/Berlin",
        ];
        assert_eq!(upcoming(&times), expected);
        let spec = Schedule::new(NewTask::new("k")).cron("30 2 * * *");
        let after = "2030-10-26T12:00:00Z".parse().unwrap();
        let times = spec.zone("Europe/Berlin").preview("s", after, 2).unwrap();
        let last = &upcoming(&times)[1];
        assert!(
            last.ends_with("(the clocks go back by 1h before it)"),
            "{last}"
        );
    }
}
