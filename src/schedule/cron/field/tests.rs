//! Errors of fields.

use super::super::Expression;

#[test]
fn the_wrong_field_is_named_in_words() {
    for (text, says) in [
        ("61 * * * *", "the minute is 61; write 0 to 59"),
        ("* 25 * * *", "the hour is 25; write 0 to 23"),
        ("0 0 32 * *", "the day of the month is 32; write 1 to 31"),
        (
            "0 0 * 13 *",
            "the month is 13; write 1 to 12, or JAN to DEC",
        ),
        ("0 0 * * 9", "the day of the week is 9; write 0 to 7"),
        ("0 0 * * FUN", "the day of the week is FUN; write 0 to 7"),
        ("61 0 0 1 1 *", "the second is 61; write 0 to 59"),
        ("a b c d e", "the minute is a; write"),
        ("0-70 * * * *", "the minute is 0-70; write 0 to 59"),
        ("0 L * * *", "the hour is L; write 0 to 23"),
        ("0 0 * L *", "the month is L; write 1 to 12"),
        ("0 1,L * * *", "the hour is 1,L; write 0 to 23"),
        (
            "0 0 * * MON,L",
            "the day of the week is MON,L; write 0 to 7",
        ),
        ("0 0 15W3 * *", "the day of the month is 15W3; write 15W"),
    ] {
        let refused = Expression::parse("cron", text).unwrap_err();
        assert!(refused.reason().contains(says), "{text}: {refused}");
    }
}

#[test]
fn a_word_that_means_less_than_it_says_is_refused_with_what_to_write() {
    for (text, says) in [
        (
            "*/90 * * * *",
            "the step of the minute is 90, but an hour has 60 minutes, so that only 0 would be left; give \
             'every' an interval of 90m instead, or write 0",
        ),
        ("*/61 * * * * *", "'every' an interval of 61s"),
        ("0 */36 * * *", "'every' an interval of 36h"),
        (
            "0 0 */40 * *",
            "a month has 31 days, so that only 1 would be left; give 'every' an interval of 40d",
        ),
        (
            "0 0 1 */18 *",
            "a year has 12 months, so that only 1 would be left; write the months, as in 1,7",
        ),
        (
            "0 0 * * */8",
            "a week has 7 days, so that only 0 would be left",
        ),
        ("0 0 * * +*/8", "a week has 7 days"),
        ("1,*/90 * * * *", "an interval of 90m"),
        (
            "0-30/45 * * * *",
            "but 0-30 has 31 minutes, so that only 0 would be left",
        ),
        (
            "0 0 * * MON-WED/4",
            "but MON-WED has 3 days, so that only MON would be left",
        ),
        (
            "*/0 * * * *",
            "the step of the minute is 0; write 1 or more",
        ),
        (
            "0 1-5/0 * * *",
            "the step of the hour is 0; write 1 or more",
        ),
        ("/5 * * * *", "the minute is /5; write */5"),
        (
            "5/60 * * * *",
            "the minute is 5/60, which leaves only 5; give 'every' an interval of 60m instead, or write 5",
        ),
        ("0 0 * DEC/2 *", "the month is DEC/2, which leaves only DEC"),
        ("70/5 * * * *", "the minute is 70/5; write 0 to 59"),
        (
            "5-1 * * * *",
            "which ends before it begins; write it as two: 5-59,0-1",
        ),
        (
            "0 0 28-3 * *",
            "which ends before it begins; write it as two: 28-31,1-3",
        ),
        (
            "0 0 * * FRI-MON/5",
            "but FRI-MON has 4 days, so that only FRI would be left",
        ),
        (
            "1,,2 * * * *",
            "the list of the minute, 1,,2, has an empty part; write 1,2",
        ),
        ("0 , * * *", "has an empty part; write 0 to 23"),
        (
            "0 0 31 2 MON",
            "has a day of the month that never occurs, together with a day of the week",
        ),
    ] {
        let refused = Expression::parse("cron", text).unwrap_err();
        assert!(refused.reason().contains(says), "{text}: {refused}");
    }
    // A step of the whole field is accepted.
    for text in [
        "*/60 * * * *",
        "0 */24 * * *",
        "0 0 */31 * *",
        "0 0 1 */12 *",
        "0 0 * * */7",
        "0 0 * * FRI-7,0-MON",
        "5-59/15 * * * *",
        "0 0 * MAR-12/2 *",
        "0 0 31 4,5 MON",
        "5/15 * * * *",
        "0 0 * MAR/2 *",
        "0 22-6 * * *",
        "0 0 * * FRI-MON/2",
        "0 0 * * 7-7",
    ] {
        let read = Expression::parse("cron", text);
        assert!(read.is_ok(), "{text}: {read:?}");
    }
}
