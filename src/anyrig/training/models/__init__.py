"""Models written here: a GPT, an image classifier, pretrained ones. Import the module you want."""
