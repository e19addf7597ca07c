//! Refused rows of the inbox are a reason why tasks do not run.

use windlass::{Client, store::Store};

use super::{
    inbox::{INSERT, submit_row},
    support::*,
};

#[tokio::test]
async fn refused_rows_are_counted_until_they_are_corrected() {
    let file = file();
    drop(file.open().await);
    let raw = file.raw();
    for operation in [
        &submit_row("good"),
        "no JSON",
        r#"{"op":"submit","id":"a"}"#,
    ] {
        raw.execute(INSERT, [operation]).unwrap();
    }
    let client = Client::new(
        &Store::open(&format!("sqlite:{}", file.path().display()))
            .await
            .unwrap(),
    );
    let refused = client.stats().await.unwrap().refused_rows;
    assert_eq!(
        (refused.rows, refused.at_least, refused.first),
        (2, false, Some(2))
    );
    let text = refused.text().unwrap();
    let begins = "2 rows of windlass_inbox were refused, and have no effect until corrected; row 2: operation: is not JSON";
    assert!(text.starts_with(begins), "{text}");
    raw.execute("DELETE FROM windlass_inbox", ()).unwrap();
    let refused = client.stats().await.unwrap().refused_rows;
    assert_eq!((refused.rows, refused.text()), (0, None));
}
