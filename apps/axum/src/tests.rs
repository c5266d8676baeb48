//! Each route, called without a socket.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use bast::future::Wait;
use http_body_util::BodyExt;
use tower::ServiceExt;

use super::app;

fn ask(request: Request<Body>) -> (StatusCode, String) {
    let ask = async {
        let response = app().oneshot(request).await.unwrap();
        let status = response.status();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(bytes.to_vec()).unwrap())
    };
    ask.wait()
}

fn get(path: &str) -> (StatusCode, String) {
    ask(Request::get(path).body(Body::empty()).unwrap())
}

#[test]
fn routes_answer() {
    assert_eq!(get("/"), (StatusCode::OK, "Hello from a task.\n".into()));
    assert_eq!(get("/no").0, StatusCode::NOT_FOUND);
    assert_eq!(get("/peer").1, "nobody\n");
    assert_eq!(get("/ticks/3").1, "0\n1\n2\n");
    let echo = Request::post("/echo").body(Body::from("back")).unwrap();
    assert_eq!(ask(echo).1, "back");
}

#[test]
fn json_is_right() {
    let sum = |path: &str| serde_json::from_str::<serde_json::Value>(&get(path).1).unwrap();
    assert_eq!(sum("/sum/20/22")["sum"], 42);
    assert!(sum("/sum/9223372036854775807/1")["sum"].is_null());
    assert_eq!(get("/sum/1/x").0, StatusCode::BAD_REQUEST);
}

#[test]
fn files_are_of_this_folder() {
    assert!(get("/files/Cargo.toml").1.contains("bast-axum-app"));
    assert_eq!(get("/files/none").0, StatusCode::NOT_FOUND);
    for path in ["/files/..%2FCargo.toml", "/files/.git", "/files/src%5Clib.rs", "/files/C:x"] {
        assert_eq!(get(path).0, StatusCode::BAD_REQUEST, "{path}");
    }
}
