"""What a request is: its verb, resource and name, its options, its body and the content type of the answer."""
