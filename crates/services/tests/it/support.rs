//! A service on a separate thread, and a client that returns every byte.

use std::future::Future;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use plimsoll_services::{ServiceError, bind};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// A running service. It ends when this is dropped.
pub struct Running {
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), ServiceError>>>,
}

/// Starts a service on a current-thread runtime, or on a runtime with two workers.
pub fn start<F, Fut>(workers: usize, serve: F) -> Running
where
    F: FnOnce(TcpListener, Shutdown) -> Fut + Send + 'static,
    Fut: Future<Output = Result<(), ServiceError>>,
{
    let (stop, stopped) = oneshot::channel();
    let (address_sender, address) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let runtime = match workers {
            0 => tokio::runtime::Builder::new_current_thread().enable_all().build(),
            n => tokio::runtime::Builder::new_multi_thread()
                .worker_threads(n)
                .enable_all()
                .build(),
        };
        runtime.unwrap().block_on(async move {
            let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
            address_sender.send(listener.local_addr().unwrap()).unwrap();
            serve(listener, Shutdown(stopped)).await
        })
    });
    Running {
        address: address.recv().unwrap(),
        stop: Some(stop),
        thread: Some(thread),
    }
}

/// Completes when the test ends the service.
pub struct Shutdown(oneshot::Receiver<()>);

impl IntoFuture for Shutdown {
    type Output = ();
    type IntoFuture = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async { self.0.await.unwrap_or(()) })
    }
}

impl Running {
    pub fn connect(&self) -> Client {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
        Client {
            stream,
            buffer: Vec::new(),
        }
    }

    /// Ends the service and returns its result.
    pub fn finish(mut self) -> Result<(), ServiceError> {
        let _ = self.stop.take().map(|stop| stop.send(()));
        self.thread.take().unwrap().join().unwrap()
    }

    pub fn get(&self, target: &str) -> Response {
        self.connect().get(target)
    }

    pub fn count(&self) -> u64 {
        self.get("/plimsoll/count").text().trim().parse().unwrap()
    }

    pub fn stats(&self) -> serde_json::Value {
        serde_json::from_slice(&self.get("/plimsoll/stats").body).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.stop.take().map(|stop| stop.send(()));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub struct Client {
    pub stream: TcpStream,
    buffer: Vec<u8>,
}

#[derive(Debug)]
pub struct Response {
    pub status: u16,
    /// The lines `name: value`, in lower case.
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Whether the body is complete: the last chunk, the whole length, or the close has arrived.
    pub complete: bool,
}

impl Response {
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields
            .iter()
            .find(|(field, _)| field == name)
            .map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }
}

impl Client {
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub fn get(&mut self, target: &str) -> Response {
        self.request("GET", target, "", b"")
    }

    /// Sends a request. Each of `fields` has `\r\n` at its end.
    pub fn request(&mut self, method: &str, target: &str, fields: &str, body: &[u8]) -> Response {
        let length = if body.is_empty() {
            String::new()
        } else {
            format!("Content-Length: {}\r\n", body.len())
        };
        self.send(format!("{method} {target} HTTP/1.1\r\nHost: h\r\n{fields}{length}\r\n").as_bytes());
        self.send(body);
        self.response()
    }

    fn fill(&mut self) -> bool {
        let mut piece = [0; 16384];
        match self.stream.read(&mut piece) {
            Ok(0) => false,
            Ok(read) => {
                self.buffer.extend_from_slice(&piece[..read]);
                true
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => false,
            Err(error) => panic!("{error}"),
        }
    }

    fn take(&mut self, length: usize) -> Vec<u8> {
        self.buffer.drain(..length.min(self.buffer.len())).collect()
    }

    pub fn line(&mut self) -> Option<String> {
        loop {
            if let Some(at) = self.buffer.iter().position(|b| *b == b'\n') {
                return Some(
                    String::from_utf8(self.take(at + 1))
                        .unwrap()
                        .trim_end()
                        .to_owned(),
                );
            }
            if !self.fill() {
                return None;
            }
        }
    }

    /// Reads all bytes up to the close.
    pub fn rest(&mut self) -> Vec<u8> {
        while self.fill() {}
        std::mem::take(&mut self.buffer)
    }

    pub fn response(&mut self) -> Response {
        let status = self.line().expect("the service closed without an answer");
        let status = status.strip_prefix("HTTP/1.1 ").unwrap()[..3].parse().unwrap();
        let mut fields = Vec::new();
        while let Some(line) = self.line().filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(": ").unwrap();
            fields.push((name.to_lowercase(), value.to_owned()));
        }
        let mut response = Response {
            status,
            fields,
            body: Vec::new(),
            complete: true,
        };
        if response.status == 304 {
            // it never has a body
        } else if let Some(length) = response.field("content-length") {
            let length: usize = length.parse().unwrap();
            while self.buffer.len() < length && self.fill() {}
            response.complete = self.buffer.len() >= length;
            response.body = self.take(length);
        } else if response.field("transfer-encoding").is_some() {
            loop {
                let Some(line) = self.line() else {
                    response.complete = false;
                    break;
                };
                let length = usize::from_str_radix(&line, 16).unwrap();
                while self.buffer.len() < length + 2 && self.fill() {}
                response.body.extend(self.take(length));
                assert_eq!(self.take(2), b"\r\n");
                if length == 0 {
                    break;
                }
            }
        } else {
            response.body = self.rest();
        }
        response
    }
}

/// A directory that is removed when this is dropped.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "plimsoll-services-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
