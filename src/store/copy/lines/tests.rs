//! Tests of the lines of a file.

use super::*;
use crate::store::export::tests::exported;

fn head(tasks: u64) -> String {
    let head = Head::new(Timestamp::UNIX_EPOCH, tasks);
    serde_json::to_string(&head).unwrap() + "\n"
}

fn line(change: impl FnOnce(&mut Exported)) -> String {
    let mut task = exported();
    change(&mut task);
    // The changes of a history belong to its task.
    serde_json::to_string(&task).unwrap() + "\n"
}

fn end(tasks: u64, left: u64) -> String {
    format!("{{\"windlass\":\"end\",\"tasks\":{tasks},\"left\":{left},\"outside\":0,\"gone\":0}}\n")
}

/// Reads all lines. Returns the tasks, or the error.
fn all(text: &str) -> Result<Vec<Exported>, String> {
    let read = || {
        let mut lines = Lines::new(text.as_bytes())?;
        let mut tasks = Vec::new();
        while let Some(line) = lines.next()? {
            if let Line::Task(task) = line {
                tasks.push(*task);
            }
        }
        Ok(tasks)
    };
    read().map_err(|e: FileError| e.to_string())
}

#[test]
fn a_task_is_read_as_it_was_written() {
    let text = head(1) + &line(|_| ()) + &end(1, 0);
    assert_eq!(all(&text).unwrap(), [exported()]);
    let lost = |e: &mut Exported| e.lost_by = Some("n1".parse().unwrap());
    let left = "{\"left\":{\"id\":\"q\",\"reason\":\"why\"}}\n";
    let text = head(2) + &line(lost) + left + &end(1, 1);
    let read = all(&text).unwrap().remove(0);
    assert_eq!(read.lost_by.unwrap().as_str(), "n1");
}

/// A truncated file is never accepted as a whole one, even when it was cut within a line or a
/// character.
#[test]
fn a_file_is_refused_wherever_it_was_cut() {
    let props =
        |e: &mut Exported| e.task.props = windlass_statemachine::Json::new("props", "ü").unwrap();
    let text = head(1) + &line(props) + &end(1, 0);
    // Without its last byte, the end of the last line, nothing is missing.
    for at in 0..text.len() - 1 {
        let Ok(begin) = std::str::from_utf8(&text.as_bytes()[..at]) else {
            continue;
        };
        let error = all(begin).unwrap_err();
        let says = [
            "the file is incomplete: ",
            "is not the first line of an export",
        ];
        assert!(
            says.iter().any(|says| error.contains(says)),
            "{at}: {error}"
        );
    }
    assert_eq!(all(text.trim_end()).unwrap().len(), 1);
}

#[test]
fn a_wrong_line_is_named_with_its_field() {
    let good = line(|_| ());
    let with = |from: &str, to: &str| {
        assert!(good.contains(from), "{good}");
        good.replacen(from, to, 1)
    };
    for (wrong, says) in [
        (
            with(r#""order":50"#, r#""order":"x""#),
            "line 2: order: is \"x\", not a whole number, 0 or more",
        ),
        (with(r#""kind":"k""#, r#""kind":"""#), "line 2: task: "),
        (
            with(r#""fence":900"#, r#""fench":900"#),
            "line 2: fence: is missing",
        ),
        (
            with(r#"{"task":"#, r#"{"more":1,"task":"#),
            "line 2: more: is not a field of this line",
        ),
        (
            with(r#""task":"a","order":70"#, r#""task":"b","order":70"#),
            "line 2: commands: 'c70' is of task 'b', not of 'a'",
        ),
        ("[]\n".to_owned(), "line 2: is an array, not an object"),
        ("{\"task\" 1}\n".to_owned(), "line 2: is not JSON: "),
        (
            with(r#""order":50"#, r#""order":50,"order":50"#),
            "line 2: 'order' is given twice",
        ),
        (good.clone() + &good, "line 3: order: 50 does not follow 50"),
        (
            "{\"left\":{\"id\":\"q\"}}\n".to_owned(),
            "line 2: left: 'reason' is missing",
        ),
    ] {
        let error = all(&(head(1) + &wrong + &end(1, 0))).unwrap_err();
        assert!(error.starts_with(says), "{error}");
    }
}

#[test]
fn the_counts_of_the_last_line_are_compared() {
    let good = line(|_| ());
    for text in [
        head(2) + &good + &end(1, 0),
        head(1) + &good + &end(2, 0),
        head(1) + &good + &end(1, 1),
        head(1) + &end(1, 0),
    ] {
        let error = all(&text).unwrap_err();
        assert!(error.contains("tasks: "), "{error}");
        assert!(error.contains("export the store again"), "{error}");
    }
    let more = head(1) + &good + &end(1, 0) + &good;
    let error = all(&more).unwrap_err();
    assert_eq!(error, "line 4: the file continues after its last line");
}

#[test]
fn another_file_and_a_newer_one_are_refused() {
    for other in ["", "\n", "hello\n", "{\"op\":\"submit\"}\n"] {
        let error = all(other).unwrap_err();
        assert!(
            error.contains("is not the first line of an export"),
            "{error}"
        );
    }
    let newer = "{\"windlass\":\"export\",\"format\":2,\"new\":[]}\n";
    let error = all(newer).unwrap_err();
    assert!(
        error.contains("(format 2; this program reads 1)"),
        "{error}"
    );
}
