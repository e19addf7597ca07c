use super::*;

fn json(text: &str) -> Json {
    Json::parse("props", text).unwrap()
}

fn patched(props: &str, patch: &str) -> Result<String, String> {
    let before = Patched {
        props: json(props),
        data: None,
    };
    let patch = Patch::read(patch.as_bytes()).unwrap();
    let after = patch.apply(&before, 1000);
    after
        .map(|after| after.props.as_str().to_owned())
        .map_err(|problem| String::from_utf8(problem.json()).unwrap())
}

#[test]
fn each_operation_changes_its_place_and_no_digit_elsewhere() {
    let props = r#"{"z": {"n":1.50,"big":12345678901234567890123}, "a":[1e2,2], "~/":0}"#;
    for (patch, expected) in [
        (
            r#"[{"op":"replace","path":"/z/n","value":2.00}]"#,
            r#"{"z":{"n":2.00,"big":12345678901234567890123},"a":[1e2,2],"~/":0}"#,
        ),
        (
            r#"[{"op":"add","path":"/a/1","value":null},{"op":"add","path":"/a/-","value":[]}]"#,
            r#"{"z":{"n":1.50,"big":12345678901234567890123},"a":[1e2,null,2,[]],"~/":0}"#,
        ),
        (
            r#"[{"op":"remove","path":"/~0~1"},{"op":"remove","path":"/a/0"}]"#,
            r#"{"z":{"n":1.50,"big":12345678901234567890123},"a":[2]}"#,
        ),
        (
            r#"[{"op":"move","from":"/z","path":"/a"}]"#,
            r#"{"a":{"n":1.50,"big":12345678901234567890123},"~/":0}"#,
        ),
        (
            r#"[{"op":"copy","from":"/z/big","path":"/b"},{"op":"test","path":"/z/n","value":1.50}]"#,
            r#"{"z":{"n":1.50,"big":12345678901234567890123},"a":[1e2,2],"~/":0,"b":12345678901234567890123}"#,
        ),
    ] {
        let patch = patch
            .replace(r#""path":"/"#, r#""path":"/props/"#)
            .replace(r#""from":"/"#, r#""from":"/props/"#);
        assert_eq!(patched(props, &patch).as_deref(), Ok(expected), "{patch}");
    }
    let whole = r#"[{"op":"replace","path":"/props","value":[7.0]}]"#;
    assert_eq!(patched(props, whole).as_deref(), Ok("[7.0]"));
}

#[test]
fn an_operation_that_cannot_be_applied_names_itself_and_changes_nothing() {
    let deep = format!(
        r#"[{{"op":"test","path":"/props/a"}},{{"op":"remove","path":"/props{}"}}]"#,
        "/0".repeat(10_000)
    );
    let first = r#"{"op":"test","path":"/props/a","value":[1]}"#;
    for (patch, reason) in [
        (
            r#"{"op":"test","path":"/props/a","value":[2]}"#,
            "is another one",
        ),
        (
            r#"{"op":"test","path":"/props/a","value":[1.0]}"#,
            "is another one",
        ),
        (r#"{"op":"remove","path":"/props/x"}"#, "does not exist"),
        (
            r#"{"op":"replace","path":"/props/a/1","value":1}"#,
            "does not exist",
        ),
        (
            r#"{"op":"replace","path":"/props/a/00","value":1}"#,
            "does not exist",
        ),
        (
            r#"{"op":"add","path":"/props/a/3","value":1}"#,
            "beyond the end",
        ),
        (
            r#"{"op":"add","path":"/props/x/y","value":1}"#,
            "does not exist",
        ),
        (
            r#"{"op":"add","path":"/props/a/0/y","value":1}"#,
            "no object",
        ),
        (r#"{"op":"add","path":"/props/x"}"#, "no value"),
        (r#"{"op":"move","path":"/props/x"}"#, "no 'from'"),
        (
            r#"{"op":"move","from":"/props/a","path":"/props/a/0"}"#,
            "into itself",
        ),
        (
            r#"{"op":"add","path":"props","value":1}"#,
            "begins with '/'",
        ),
        (
            r#"{"op":"replace","path":"","value":1}"#,
            "is not in /props or /data",
        ),
        (
            r#"{"op":"replace","path":"/kind","value":"k"}"#,
            "is not in /props or /data",
        ),
    ] {
        let error = patched(r#"{"a":[1]}"#, &format!("[{first},{patch}]")).unwrap_err();
        assert!(
            error.contains(reason) && error.contains(r#""field":"[1]""#),
            "{patch}: {error}"
        );
    }
    let deep = deep.replace(r#""path":"/props/a"}"#, r#""path":"/props/a","value":[1]}"#);
    let error = patched(r#"{"a":[1]}"#, &deep).unwrap_err();
    assert!(error.contains("at most 128"), "{error}");
    for missing in ["props", "data"] {
        let before = Patched {
            props: json("{}"),
            data: Some(json("1")),
        };
        let patch = format!(r#"[{{"op":"remove","path":"/{missing}"}}]"#);
        let patch = Patch::read(patch.as_bytes()).unwrap();
        let error = patch.apply(&before, 1000).unwrap_err();
        let error = String::from_utf8(error.json()).unwrap();
        assert!(error.contains("cannot be removed"), "{error}");
    }
}

/// A value that is copied into itself again and again doubles each time.
#[test]
fn copies_do_not_grow_without_bounds() {
    let copy = r#"{"op":"copy","from":"/props","path":"/props/a"}"#;
    let patch = format!("[{}]", [copy; 100].join(","));
    let error = patched(r#"{"b":"0123456789"}"#, &patch).unwrap_err();
    assert!(error.contains("copies more than 1000 bytes"), "{error}");
}

#[test]
fn an_object_of_many_fields_is_opened_in_one_pass() {
    // With a search for each field it would take minutes.
    let fields: Vec<String> = (0..200_000).map(|n| format!(r#""f{n}":{n}"#)).collect();
    let props = format!(r#"{{{},"f0":7}}"#, fields.join(","));
    let patch = r#"[{"op":"test","path":"/props/f0","value":7},{"op":"replace","path":"/props/f1","value":9}]"#;
    let after = patched(&props, patch).unwrap();
    assert!(
        after.starts_with(r#"{"f0":7,"f1":9,"f2":2,"#),
        "{}",
        &after[..40]
    );
}

#[test]
fn a_patch_has_at_most_a_thousand_operations() {
    let of = |many: usize| {
        let one = r#"{"op":"test","path":"/props","value":1}"#;
        format!("[{}]", vec![one; many].join(","))
    };
    assert!(Patch::read(of(1000).as_bytes()).is_ok());
    assert!(Patch::read(of(1001).as_bytes()).is_err());
}
