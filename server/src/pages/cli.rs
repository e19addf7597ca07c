//! The command lines that give the same as a page.

use jiff::{
    Zoned,
    tz::{Offset, TimeZone},
};
use windlass::statemachine::wire::read_past;

/// The options of `windlass list` that have another name, or no value.
const RENAMED: [(&str, &str); 10] = [
    ("order", "--sort"),
    ("submitted_from", "--submitted-from"),
    ("submitted_until", "--submitted-until"),
    ("ended_from", "--ended-from"),
    ("ended_until", "--ended-until"),
    ("props_at", "--props-at"),
    ("limit_key", "--limit-key"),
    ("claimed", "--claimed"),
    ("quarantined", "--quarantined"),
    ("reversed", "--reverse"),
];

/// The parameters that are times.
const TIMES: [&str; 7] = [
    "since",
    "from",
    "to",
    "submitted_from",
    "submitted_until",
    "ended_from",
    "ended_until",
];

/// Returns parameters as programs in any time zone read them: a day or a local time, which a page reads in the zone of `now`, as
/// the time that it means there.
pub(super) fn in_any_zone(params: &[(String, String)], now: &Zoned) -> Vec<(String, String)> {
    // No zone has the same day and time as one an hour beside it.
    let other = now.offset().seconds()
        + if now.offset().seconds() > 0 {
            -3600
        } else {
            3600
        };
    let other = Offset::from_seconds(other).map_or(TimeZone::UTC, Offset::to_time_zone);
    let other = now.timestamp().to_zoned(other);
    let named = |(name, value): &(String, String)| {
        let read = |now: &Zoned| read_past("time", value, now).ok();
        let here = read(now).filter(|here| Some(*here) != read(&other));
        let is_time = TIMES.contains(&name.as_str());
        let absolute = here.filter(|_| is_time);
        let value = absolute.map_or_else(|| value.clone(), |at| at.to_string());
        (name.clone(), value)
    };
    params.iter().map(named).collect()
}

/// Returns a word as a shell takes it.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-_./:=@%+,".contains(&b);
    match !word.is_empty() && word.bytes().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Returns the words as a line for a shell. None of them begins like an option that it is not.
pub(super) fn line(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    words.join(" ")
}

/// Returns a command on a task, whose id may begin like an option.
pub(super) fn on(command: &str, id: &str) -> String {
    with(command, &[id])
}

/// Returns a command with words that may begin like options. `command` has its options: none may follow the words.
pub(super) fn with(command: &str, words: &[&str]) -> String {
    format!("windlass {command}{}", after(words))
}

/// Returns the line of `windlass list` with the parameters of a query, or of another command that takes its filters. Ids come
/// last, and `windlass get` shows them, because a list takes none.
pub(super) fn list(command: &str, params: &[(String, String)]) -> String {
    let ids = params.iter().filter(|(name, _)| name == "id");
    let ids: Vec<&str> = ids.map(|(_, id)| id.as_str()).collect();
    if command == "list" && !ids.is_empty() {
        let each: Vec<String> = ids.iter().map(|id| on("get", id)).collect();
        return each.join("; ");
    }
    let mut line = format!("windlass {command}");
    for (name, value) in params {
        if name == "props" || name == "id" {
            continue;
        }
        let renamed = RENAMED.iter().find(|(known, _)| known == name);
        let option =
            renamed.map_or_else(|| format!("--{name}"), |(_, option)| (*option).to_owned());
        let is_flag = matches!(name.as_str(), "claimed" | "quarantined" | "reversed");
        match (is_flag, value.as_str()) {
            (true, "false") => {}
            (true, _) => line.push_str(&format!(" {option}")),
            // A program takes a word that begins so for an option.
            (false, value) if value.starts_with('-') => {
                line.push_str(&format!(" {option}={}", quoted(value)));
            }
            (false, value) => line.push_str(&format!(" {option} {}", quoted(value))),
        }
    }
    line + &after(&ids)
}

/// Returns words that follow the options of a command.
fn after(words: &[&str]) -> String {
    let dashes = words.iter().any(|word| word.starts_with('-'));
    let words = words.iter().map(|word| format!(" {}", quoted(word)));
    let words: String = words.collect();
    format!("{}{words}", if dashes { " --" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_options_of_the_query() {
        let params = [
            ("state", "failed,fault"),
            ("label", "a=b c"),
            ("claimed", ""),
            ("reversed", "false"),
            ("order", "ended"),
            ("props", "false"),
        ];
        let params = params.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let expected = "windlass list --state failed,fault --label 'a=b c' --claimed --sort ended";
        assert_eq!(list("list", &params), expected);
        let params = [
            ("kind", "mail"),
            ("id", "a b"),
            ("prefix", "-rf"),
            ("id", "-x"),
        ];
        let params = params.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let expected = "windlass bulk kill --kind mail --prefix=-rf -- 'a b' -x";
        assert_eq!(list("bulk kill", &params), expected);
        assert_eq!(
            list("list", &params),
            "windlass get 'a b'; windlass get -- -x"
        );
    }

    #[test]
    fn a_shell_takes_a_hostile_word_as_it_is() {
        assert_eq!(quoted("a'; rm -rf $HOME"), r"'a'\''; rm -rf $HOME'");
        assert_eq!(on("pause", "-x"), "windlass pause -- -x");
        assert_eq!(
            with("signal --payload JSON", &["-sig", "go on"]),
            "windlass signal --payload JSON -- -sig 'go on'"
        );
        assert_eq!(line(&["windlass", "get", "", "a"]), "windlass get '' a");
    }
}
