//! Errors that a request is answered with.

use serde_json::{Value, json};

/// Why a request was not done: a stable code, what was received, what was expected, what to do.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestError {
    /// Stable, for programs.
    pub code: &'static str,
    /// For people.
    pub message: String,
    /// What to do next.
    pub hint: Option<Box<str>>,
    /// Fields that belong to the code.
    pub details: Option<Box<Value>>,
}

impl RequestError {
    /// An error with a code and a message.
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None, details: None }
    }

    /// A request that the contract does not allow.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new("invalid_request", message)
    }

    /// Adds fields.
    pub fn with_details(mut self, details: Value) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// Adds advice.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into().into_boxed_str());
        self
    }

    /// The head of the reply.
    pub fn head(&self) -> Vec<u8> {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(hint) = &self.hint {
            error["hint"] = json!(hint);
        }
        if let Some(details) = &self.details {
            error["details"] = (**details).clone();
        }
        json!({"ok": false, "error": error}).to_string().into_bytes()
    }
}
