use super::*;

fn first(text: &str, from: DateTime) -> DateTime {
    let expression = Expression::parse("cron", text).unwrap();
    expression.at_or_after(from).unwrap()
}

#[test]
fn five_fields_six_fields_and_names_are_read() {
    let from = date(2030, 1, 1).at(0, 0, 1, 0);
    assert_eq!(first("30 2 * * *", from), date(2030, 1, 1).at(2, 30, 0, 0));
    assert_eq!(
        first("15 30 2 * * *", from),
        date(2030, 1, 1).at(2, 30, 15, 0)
    );
    assert_eq!(first("@weekly", from), date(2030, 1, 6).at(0, 0, 0, 0));
    assert_eq!(first(" @Midnight ", from), date(2030, 1, 2).at(0, 0, 0, 0));
    assert_eq!(
        first("0 9 * * MON-FRI", from),
        date(2030, 1, 1).at(9, 0, 0, 0)
    );
    assert_eq!(first("0 0 L * *", from), date(2030, 1, 31).at(0, 0, 0, 0));
    assert_eq!(first("0 0 * * 5#L", from), date(2030, 1, 25).at(0, 0, 0, 0));
}

#[test]
fn a_year_is_the_last_of_seven_fields() {
    let from = date(2030, 6, 1).at(0, 0, 0, 0);
    let text = "0 30 2 1 * * 2031-2032,2040";
    assert_eq!(first(text, from), date(2031, 1, 1).at(2, 30, 0, 0));
    let last = date(2032, 12, 1).at(2, 30, 0, 0);
    assert_eq!(first(text, last), last);
    let behind = date(2032, 12, 1).at(2, 30, 1, 0);
    assert_eq!(first(text, behind), date(2040, 1, 1).at(2, 30, 0, 0));
    let expression = Expression::parse("cron", text).unwrap();
    let end = date(2041, 1, 1).at(0, 0, 0, 0);
    assert_eq!(expression.at_or_after(end), None);
    assert!(expression.matches(last) && !expression.matches(behind));
    assert_eq!(
        first("0 0 0 1 1 * *", from),
        date(2031, 1, 1).at(0, 0, 0, 0)
    );
    let never = Expression::parse("cron", "0 0 0 29 2 * 2031").unwrap_err();
    assert!(
        never.reason().contains("none of its years has such a day"),
        "{never}"
    );
    let six = Expression::parse("cron", "0 0 1 1 * 2030").unwrap_err();
    let says = "a year needs 7 fields: the second first, and the year last";
    assert!(six.reason().contains(says), "{six}");
}

#[test]
fn days_are_counted_from_the_last_of_the_month() {
    let from = date(2030, 1, 29).at(0, 0, 0, 0);
    assert_eq!(first("0 6 L-3 * *", from), date(2030, 2, 25).at(6, 0, 0, 0));
    assert_eq!(
        first("0 6 1,L-1 * *", from),
        date(2030, 1, 30).at(6, 0, 0, 0)
    );
    // Only months of 31 days have it; with a weekday as the alternative.
    assert_eq!(first("0 0 L-30 * *", from), date(2030, 3, 1).at(0, 0, 0, 0));
    assert_eq!(
        first("0 0 L-3 * SUN", from),
        date(2030, 2, 3).at(0, 0, 0, 0)
    );
    assert_eq!(
        first("0 0 L-3 * +MON", from),
        date(2030, 2, 25).at(0, 0, 0, 0)
    );
    let never = Expression::parse("cron", "0 0 L-29 2 *").unwrap_err();
    assert!(never.reason().contains("never comes"), "{never}");
    let wrong = Expression::parse("cron", "0 0 L-31 * *").unwrap_err();
    assert!(
        wrong.reason().contains("is L-31; write L-1 to L-30"),
        "{wrong}"
    );
}

#[test]
fn an_interval_and_a_start_are_no_pattern() {
    assert_eq!(interval_of(" @EVERY  5m "), Some("5m"));
    assert_eq!(interval_of("@everyday"), None);
    assert!(is_reboot("@Reboot ") && !is_reboot("@reboots"));
    for text in ["@every 5m", "@reboot"] {
        let wrong = Expression::parse("except.cron", text).unwrap_err();
        assert!(wrong.reason().contains("it can only add times"), "{wrong}");
    }
}

proptest::proptest! {
    /// The walk from day to day finds what the parser of expressions finds.
    #[test]
    fn a_walk_finds_the_times_of_the_parser(
        minute in 0u32..60,
        hour in proptest::sample::select(vec!["*", "3", "5-20/4", "22-2"]),
        day in proptest::sample::select(vec!["*", "31", "L", "15W", "1-7", "5/10"]),
        month in proptest::sample::select(vec!["*", "2", "4,MAY", "NOV-FEB"]),
        weekday in proptest::sample::select(vec!["*", "FRIDAY-MON", "+2-4", "5#L", "1#2"]),
        days in 0i32..4000,
    ) {
        let text = format!("{minute} {hour} {day} {month} {weekday}");
        if let Ok(expression) = Expression::parse("cron", &text) {
            let from = date(2028, 1, 1).at(4, 30, 0, 0).checked_add(days.days()).unwrap();
            proptest::prop_assert_eq!(expression.walk(from), expression.at_or_after(from), "{}", text);
        }
    }
}

#[test]
fn a_day_of_the_month_or_of_the_week_is_enough() {
    // As in other crons: two restricted days are alternatives.
    let from = date(2030, 1, 1).at(0, 0, 0, 0);
    let expression = Expression::parse("cron", "0 0 13 * FRI").unwrap();
    let friday = expression.at_or_after(from).unwrap();
    assert_eq!(friday, date(2030, 1, 4).at(0, 0, 0, 0));
    assert!(expression.matches(date(2030, 1, 13).at(0, 0, 0, 0)));
}

#[test]
fn an_expression_that_never_comes_is_refused() {
    for text in ["0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 0 31 4 ?"] {
        let refused = Expression::parse("cron", text).unwrap_err();
        assert_eq!(refused.field(), "cron");
        assert!(refused.reason().contains("never comes"), "{refused}");
    }
}

#[test]
fn the_29_of_february_comes_in_leap_years() {
    let from = date(2097, 1, 1).at(0, 0, 0, 0);
    // 2100 is not a leap year.
    assert_eq!(first("0 0 29 2 *", from), date(2104, 2, 29).at(0, 0, 0, 0));
    // On a Monday this date occurs every 28 years, and after 40 years across 2100.
    let from = date(2072, 3, 1).at(0, 0, 0, 0);
    assert_eq!(
        first("0 0 29 2 +MON", from),
        date(2112, 2, 29).at(0, 0, 0, 0)
    );
}

#[test]
fn wrong_expressions_are_refused_with_an_example() {
    for text in [
        "",
        "* * * *",
        "61 * * * *",
        "* 25 * * *",
        "a b c d e",
        "@rebot",
        "0 0 32 * *",
        "0 0 0 1 1 * 30",
        "0 0 0 1 1 * 2030 x",
        "0 0 1 1 * 2030",
        "0 0 * 13 *",
        "*/0 * * * *",
        "5-1 * * * *",
    ] {
        let refused = Expression::parse("cron", text).unwrap_err();
        assert_eq!(refused.field(), "cron", "{text}");
        assert!(refused.reason().contains("@daily"), "{refused}");
    }
}

#[test]
fn steps_of_an_hour_or_less_are_known() {
    for (text, steps) in [
        ("30 2 * * *", false),
        ("0,30 2,3 * * *", false),
        ("0 */2 * * *", false),
        ("@daily", false),
        ("@hourly", true),
        ("15 * * * *", true),
        ("*/15 9-17 * * *", true),
        ("*/10 30 2 * * *", true),
    ] {
        let expression = Expression::parse("cron", text).unwrap();
        assert_eq!(expression.steps(), steps, "{text}");
    }
}
