//! Days that depend on the length of the month: `L-3` is the third before the last. The parser reads `L` beside `LW` as `LW`
//! alone, so `L` is such a day there.

/// The most days before the last one.
const MOST: u32 = 30;

/// Returns how many days before the last a part of the day of the month is: `L-3`.
fn before_last(part: &str) -> Option<&str> {
    let letter = part.get(..2)?;
    letter.eq_ignore_ascii_case("L-").then(|| part.get(2..))?
}

/// Returns whether a day of the month has such a part.
pub(super) fn is_in(day: &str) -> bool {
    let has = |name: &str| day.split(',').any(|part| part.eq_ignore_ascii_case(name));
    let is_before = day.split(',').any(|part| before_last(part).is_some());
    is_before || (has("L") && has("LW"))
}

/// Returns the error for such a part, with the correct form.
pub(super) fn check(day: &str) -> Result<(), String> {
    for days in day.split(',').filter_map(before_last) {
        let number = days.parse::<u32>().ok();
        if !number.is_some_and(|number| (1..=MOST).contains(&number)) {
            return Err(format!(
                "the day of the month is L-{days}; write L-1 to L-{MOST} for a day before the last, or L for the last"
            ));
        }
    }
    // The parser ignores what follows the letter.
    let has_letter = |part: &&str| part.contains(['W', 'w']);
    for part in day.split(',').filter(has_letter) {
        let of = part.get(..part.len() - 1).unwrap_or_default();
        let ends = part.ends_with(['W', 'w']);
        if !ends || !(of.eq_ignore_ascii_case("L") || of.parse::<u32>().is_ok()) {
            return Err(format!(
                "the day of the month is {part}; write 15W for the working day next to the 15th, or LW for the last working \
                 day"
            ));
        }
    }
    Ok(())
}

/// Returns the day of the month for months of this length, and `None` if such a month has none of the days. The day of
/// the week decides what is left when the day of the month is gone.
pub(super) fn in_month_of(days: u32, day: &str, weekday: &str) -> Option<String> {
    let part = |part: &str| match before_last(part) {
        None if part.eq_ignore_ascii_case("L") => Some(days.to_string()),
        None => Some(part.to_owned()),
        Some(before) => {
            let day = days.checked_sub(before.parse().ok()?)?;
            (day > 0).then(|| day.to_string())
        }
    };
    let parts: Vec<String> = day.split(',').filter_map(part).collect();
    let is_alternative = !["*", "?"].contains(&weekday) && !weekday.starts_with('+');
    match (parts.is_empty(), is_alternative) {
        (false, _) => Some(parts.join(",")),
        (true, true) => Some("*".to_owned()),
        (true, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_days_depend_on_the_length_of_the_month() {
        for (days, day, weekday, expected) in [
            (31, "L-3", "*", Some("28")),
            (28, "15,l-3", "*", Some("15,25")),
            (30, "L-30", "*", None),
            (30, "L-30", "+MON", None),
            (30, "L-30", "MON", Some("*")),
            (31, "L-30", "MON", Some("1")),
            (30, "LW,l", "*", Some("LW,30")),
        ] {
            let plain = in_month_of(days, day, weekday);
            assert_eq!(plain.as_deref(), expected, "{day} of {days}");
        }
        assert!(is_in("1,L-3") && is_in("lw,L") && !is_in("L,1-3") && !is_in("LW,1"));
        for day in ["15W3", "W", "15WW", "xW"] {
            assert!(check(day).unwrap_err().contains("write 15W"), "{day}");
        }
        for day in ["L-0", "L-31", "L-x", "L-3W"] {
            assert!(
                check(day).unwrap_err().contains("write L-1 to L-30"),
                "{day}"
            );
        }
    }
}
