"""What the doctor looks at: one function a check, of the deployment and of the account around it."""
