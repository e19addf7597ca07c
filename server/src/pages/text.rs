//! How texts, numbers and states are shown: isolated from what stands beside them, and cut.

use jiff::{Timestamp, tz::TimeZone};
use maud::{Markup, html};

/// What a filter of tasks takes: `running` and `queued` are the two sorts of runnable tasks.
pub(super) const STATE_WORDS: [&str; 9] = [
    "running",
    "queued",
    "runnable",
    "sleeping",
    "paused",
    "fault",
    "completed",
    "failed",
    "killed",
];

/// The most characters of an id, a kind or a name in a table.
const NAME: usize = 72;

/// Returns the first characters of a text, with `…` if there are more. Characters without a place on a page are shown as `�`.
pub(super) fn cut(text: &str, most: usize) -> String {
    let mut chars = text.chars();
    let shown = chars.by_ref().take(most).map(|c| match c {
        '\n' | '\t' => c,
        c if c.is_control() => '\u{FFFD}',
        c => c,
    });
    let mut shown: String = shown.collect();
    if chars.next().is_some() {
        shown.push('…');
    }
    shown
}

/// Shows a name, whose direction does not reach what stands beside it.
pub(super) fn name(text: &str) -> Markup {
    let is_cut = text.chars().nth(NAME).is_some();
    html! { bdi.name title=[is_cut.then(|| cut(text, 300))] { (cut(text, NAME)) } }
}

/// Shows a state by colour, shape and word.
pub(super) fn state(state: &str) -> Markup {
    let shape = match state {
        "runnable" | "running" => "▶",
        "queued" => "▷",
        "sleeping" => "◔",
        "paused" => "‖",
        "fault" => "▲",
        "completed" => "✓",
        "failed" => "✕",
        "killed" => "■",
        _ => "?",
    };
    let class = match state {
        "runnable" | "running" | "queued" | "sleeping" | "paused" | "fault" | "completed"
        | "failed" | "killed" => state,
        _ => "quarantined",
    };
    html! { span class={ "state " (class) } { span.shape aria-hidden="true" { (shape) } (state) } }
}

/// Returns a time of the day, with the day if it is another one than today would be.
pub(super) fn clock(at: Timestamp, zone: &TimeZone) -> String {
    at.to_zoned(zone.clone()).strftime("%H:%M:%S").to_string()
}

/// Returns a length of time in one or two units.
pub(super) fn length(seconds: i64) -> String {
    let (minute, hour, day) = (60, 3600, 86_400);
    let two = |large: i64, name: &str, small: i64, of: &str| match (seconds % large) / small {
        0 => format!("{} {name}", seconds / large),
        rest => format!("{} {name} {rest} {of}", seconds / large),
    };
    match seconds {
        0 => "0 s".to_owned(),
        s if s < minute => format!("{s} s"),
        s if s < hour => two(minute, "min", 1, "s"),
        s if s < day => two(hour, "h", minute, "min"),
        s if s < 100 * day => two(day, "d", hour, "h"),
        s => format!("{} d", s / day),
    }
}

/// Returns a number with its digits in groups of three.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_and_lose_what_has_no_place() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "abc…");
        assert_eq!(cut("a\u{1b}[31mb\u{7f}", 20), "a\u{FFFD}[31mb\u{FFFD}");
    }

    #[test]
    fn lengths_have_two_units_and_numbers_groups() {
        let texts = [0, 59, 60, 61, 3600, 7260, 90_000, 10_000_000].map(length);
        let expected = [
            "0 s",
            "59 s",
            "1 min",
            "1 min 1 s",
            "1 h",
            "2 h 1 min",
            "1 d 1 h",
            "115 d",
        ];
        assert_eq!(texts, expected.map(str::to_owned));
        assert_eq!(
            [7, 1000, 1_234_567].map(grouped),
            ["7", "1,000", "1,234,567"]
        );
    }
}
